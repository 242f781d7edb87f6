// Memory that ranks share, directly: who may share it, and messages that do not fit together.
// gloo_test.cpp sends messages of all sizes through it, and ranks leave there.
#include "dist/groups/shared_memory.h"
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fstream>
#include <sstream>
#include "tests/dist/rank_threads.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

constexpr Timeout kPatience(20'000);

// Calls body(memory, rank) on a thread for each rank. Returns the error of each.
template <class Body>
std::vector<Refusal> on_ranks(int world, const Body& body, const std::set<int>& unwilling = {},
                              const std::function<void(int)>& prepare = {}) {
  MemoryStore store;
  return on_threads(world, [&](int rank) {
    if (prepare) prepare(rank);
    const auto memory = SharedMemory::join(place_of_rank(rank, world), store, "test/", kPatience,
                                           !unwilling.contains(rank));
    body(memory.get(), rank);
  });
}

}  // namespace

TEST(SharedMemory, IsRefusedToAllIfOneRankIsUnwilling) {
  for (const int unwilling : {0, 2})
    on_ranks(3, [](SharedMemory* memory, int) { EXPECT_EQ(memory, nullptr); }, {unwilling});
}

TEST(SharedMemory, IsRefusedToMoreRanksThanItServes) {
  on_ranks(8, [](SharedMemory* memory, int) { EXPECT_NE(memory, nullptr); });
  on_ranks(9, [](SharedMemory* memory, int) { EXPECT_EQ(memory, nullptr); });
}

// Their link may be limited on purpose.
TEST(SharedMemory, IsRefusedAcrossNetworkNamespaces) {
  std::atomic<bool> allowed = true;
  on_ranks(
      2, [&](SharedMemory* memory, int) { EXPECT_EQ(memory == nullptr, allowed); }, {},
      [&](int rank) {
        if (rank == 1 && unshare(CLONE_NEWNET) != 0) allowed = false;
      });
  if (!allowed) GTEST_SKIP() << "no network namespaces here";
}

// ---- a foreign rank 0

namespace {

// Joins as rank 1, where a foreign rank 0 names descriptor `number` of `process`. Returns whether
// the memory was shared.
bool join_with(pid_t process, int number) {
  MemoryStore honest, store;
  SharedMemory::join({}, honest, "test/", kPatience, true);
  std::istringstream its(honest.get("test/0", Timeout(0)));
  std::string own_process, own_number, machine;
  its >> own_process >> own_number;
  std::getline(its >> std::ws, machine);
  store.set("test/0", cat(process, " ", number, " ", machine));
  return SharedMemory::join(place_of_rank(1, 2), store, "test/", kPatience, true) != nullptr;
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// Returns memory of that size, with those seals.
int memory_of(off_t bytes, int seals) {
  const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(file, bytes), 0);
  EXPECT_EQ(fcntl(file, F_ADD_SEALS, seals), 0);
  return file;
}

// Returns the size of the memory that two ranks share.
off_t bytes_of_two() {
  std::atomic<off_t> bytes = 0;
  on_ranks(2, [&](SharedMemory*, int) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      off_t begin = 0, end = 0;
      char dash = 0;
      std::istringstream(line) >> std::hex >> begin >> dash >> end;
      if (line.find("memfd:bellows ranks") != line.npos) bytes = end - begin;
    }
  });
  return bytes;
}

}  // namespace

TEST(SharedMemory, IsNeverAFileThatRank0Names) {
  const std::string path = testing::TempDir() + cat("bellows_planted_", getpid());
  const std::string content(size_t(bytes_of_two()), 'x');
  std::ofstream(path) << content;
  chmod(path.c_str(), 0600);
  for (const char* named : {path.c_str(), "/dev/zero"}) {
    const int file = open(named, O_RDONLY | O_CLOEXEC);
    const Refusal refusal = refused([&] { join_with(getpid(), file); });
    EXPECT_EQ(refusal.exit, Exit::distributed) << named;
    EXPECT_THAT(refusal.message, HasSubstr(cat("/proc/", getpid(), "/fd/", file)));
    close(file);
  }
  std::ostringstream now;
  now << std::ifstream(path).rdbuf();
  EXPECT_EQ(now.str(), content);
  unlink(path.c_str());
}

// A read beyond the end of a mapped file ends in SIGBUS.
TEST(SharedMemory, HasASizeThatNobodyCanChange) {
  const off_t bytes = bytes_of_two();
  ASSERT_GT(bytes, 0);
  for (const auto& [size, seals] : {std::pair(bytes, 0), {bytes, F_SEAL_GROW}, {4096L, kSeals}}) {
    const int file = memory_of(size, seals);
    EXPECT_EQ(refused([&] { join_with(getpid(), file); }).exit, Exit::distributed) << size;
    close(file);
  }
  const int honest = memory_of(bytes, kSeals);
  EXPECT_TRUE(join_with(getpid(), honest));
  close(honest);
}

TEST(SharedMemory, IsNotAnotherUsers) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become another user";
  const off_t bytes = bytes_of_two();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t other = fork();
  if (other == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    const int file = memory_of(bytes, kSeals);
    if (write(ends[1], &file, sizeof file) != sizeof file) _exit(1);
    for (;;) pause();
  }
  int file = -1;
  ASSERT_EQ(read(ends[0], &file, sizeof file), ssize_t(sizeof file));
  EXPECT_FALSE(join_with(other, file));
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  for (const int end : ends) close(end);
}

// ---- messages

TEST(SharedMemory, RefusesMessagesOfDifferentSizes) {
  const auto errors = on_ranks(2, [&](SharedMemory* memory, int rank) {
    const std::vector<std::byte> values(rank ? 404 : 400);
    SharedMemory::Message message{.mine = values.data(), .bytes = values.size()};
    message.read = [](size_t, size_t, const SharedMemory::Chunks&) {};
    memory->start(message);
    memory->finish(message, kPatience);
  });
  EXPECT_THAT(errors[0].message, HasSubstr("rank 1 sends 404 bytes, this rank 400"));
  EXPECT_THAT(errors[1].message, HasSubstr("rank 0 sends 400 bytes, this rank 404"));
}
