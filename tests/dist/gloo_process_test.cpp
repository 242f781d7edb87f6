// Ranks that are processes and meet over the real store, over TCP and through shared memory. One
// rank is killed or stopped in the middle of a collective, or killed between two.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <sstream>
#include <thread>
#include "core/base/file.h"
#include "core/base/trace.h"
#include "core/config/values.h"
#include "dist/groups/process_group.h"
#include "tests/dist/ranks.h"
#include "tests/free_port.h"
#include "tests/refusal.h"

using namespace bellows;
using SteadyClock = std::chrono::steady_clock;

namespace {

constexpr double kTimeout = 2;  // of a collective, in seconds

// The options of a rank, as text in its environment.
struct Place {
  std::string job;  // "reduce" or "pause"
  int rank, world, port;
  bool shared;
  Path folder;
};

// Waits for a file of that name.
bool comes(const Path& file, Timeout timeout) {
  for (const auto end = SteadyClock::now() + timeout; access(file.c_str(), R_OK);) {
    if (SteadyClock::now() >= end) return false;
    std::this_thread::sleep_for(Timeout(2));
  }
  return true;
}

// Reduces until a collective fails. Writes `error<rank>` into the folder, and `runs<rank>` before.
// "pause": after three updates, goes on when the file `go` is there.
void reduce(const Place& place, const GroupContext& context) {
  const auto write = [&](const char* name, const std::string& text) {
    write_file(place.folder / cat(name, place.rank), bytes_of(text));
  };
  const Values values = {{"shared_memory", {place.shared ? "true" : "false"}}};
  Load load(values);
  Choice<MakeGroup> gloo("gloo");
  gloo.visit_options(load);
  const auto group = gloo.make(context);
  const Tensor t = full({4'000'000}, place.rank);
  for (;;) {
    ++group->step;
    try {
      group->all_reduce(t, Reduction::mean, "bucket 3").wait();
    } catch (const Error& failed) {
      write("error", failed.what());
      throw;
    }
    if (group->step != 3) continue;
    const std::span<const float> means = t.data<float>();
    CHECK(std::ranges::count(means, (place.world - 1) / 2.f) == std::ssize(means), "wrong means");
    CHECK((trace::counters()["dist.shared_bytes"] > 0) == place.shared, "another path was taken");
    write("runs", "");
    if (place.job == "pause") comes(place.folder / "go", Timeout(60'000));
  }
}

[[noreturn]] void run_rank(const Place& place) {
  const Refusal error = refused([&] {
    GroupContext context;
    context.ranks = place_of_rank(place.rank, place.world, place.port);
    context.store = meet(context.ranks, {.timeout_s = 30});  // of the start on a busy machine
    context.options.timeout_s = place.job == "pause" ? 60 : kTimeout;
    reduce(place, context);
  });
  if (error.message != "no error")
    write_file(place.folder / cat("why", place.rank), bytes_of(error.message));
  _exit(error.message == "no error" ? 0 : int(error.exit));
}

struct Fault {
  int world, victim, signal;
  const char* error;  // on the other ranks, after "gloo: step 4, bucket 3: "
};

class Processes : public testing::Test {
 protected:
  ~Processes() override {
    for (const pid_t process : processes) {
      if (!process) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  void start(const std::string& job, int world, bool shared) {
    const int port = free_port();
    // A rank runs one test, which may be in another part of the suite.
    for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) unsetenv(name);
    for (int rank = 0; rank < world; ++rank) {
      const std::string place =
          cat(job, " ", rank, " ", world, " ", port, " ", int(shared), " ", folder.string());
      setenv("BELLOWS_TEST_GLOO_RANK", place.c_str(), 1);
      const pid_t process = fork();
      ASSERT_GE(process, 0);
      if (process == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        execl("/proc/self/exe", "dist_test", "--gtest_filter=*RunsARank",
              "--gtest_also_run_disabled_tests", nullptr);
        _exit(127);
      }
      processes.push_back(process);
    }
  }
  int exit_of(int rank) {
    int status = 0;
    waitpid(std::exchange(processes[rank], 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool comes(const std::string& name, Timeout timeout) const {
    return ::comes(folder / name, timeout);
  }

  std::string why(int rank) const {
    const Path file = folder / cat("why", rank);
    return access(file.c_str(), R_OK) ? "" : read_file(file, 10'000, Exit::data);
  }

  static Path fresh_folder() {
    std::string name = testing::TempDir() + "/gloo_XXXXXX";
    return mkdtemp(name.data());
  }
  const Path folder = fresh_folder();
  std::vector<pid_t> processes;  // by rank; 0: has ended
};

constexpr Fault kFaults[] = {
    {2, 1, SIGKILL, "rank 1 left and gave no cause; .*"},
    {3, 2, SIGKILL, "rank 2 left and gave no cause; .*"},
    {3, 0, SIGKILL, "rank 0 left .*"},
    {2, 1, SIGSTOP, "rank 1 did not answer within 2 s; .*"},
    {3, 2, SIGSTOP, "rank 2 did not answer within 2 s; .*"},
    {3, 0, SIGSTOP, ".*rank 0 .*"},
};
class FaultyProcesses : public Processes,
                        public testing::WithParamInterface<std::tuple<Fault, bool>> {};
std::string name_of(const testing::TestParamInfo<std::tuple<Fault, bool>>& info) {
  const auto& [fault, shared] = info.param;
  return cat("Rank", fault.victim, "Of", fault.world,
             fault.signal == SIGKILL ? "Killed" : "Stopped", shared ? "InMemory" : "OverTcp");
}
INSTANTIATE_TEST_SUITE_P(Faults, FaultyProcesses,
                         testing::Combine(testing::ValuesIn(kFaults), testing::Bool()), name_of);

class PausedProcesses : public Processes, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Either, PausedProcesses, testing::Bool());

}  // namespace

TEST(GlooProcess, DISABLED_RunsARank) {
  const char* const text = std::getenv("BELLOWS_TEST_GLOO_RANK");
  if (!text) GTEST_SKIP() << "started by the tests below";
  std::istringstream in(text);
  Place place;
  in >> place.job >> place.rank >> place.world >> place.port >> place.shared >> place.folder;
  run_rank(place);
}

TEST_P(FaultyProcesses, EndInTimeAndNameTheRank) {
  const auto& [fault, shared] = GetParam();
  start("reduce", fault.world, shared);
  for (int rank = 0; rank < fault.world; ++rank)
    ASSERT_TRUE(comes(cat("runs", rank), Timeout(40'000))) << why(rank) << why(0);
  const auto limit = SteadyClock::now() + Timeout(int64_t(kTimeout * 1000) + 5000);
  kill(processes[fault.victim], fault.signal);
  for (int rank = 0; rank < fault.world; ++rank) {
    if (rank == fault.victim) continue;
    const std::string file = cat("error", rank);
    ASSERT_TRUE(comes(file, std::chrono::ceil<Timeout>(limit - SteadyClock::now())));
    EXPECT_THAT(read_file(folder / file, 10'000, Exit::data),
                testing::MatchesRegex(cat("gloo: step [0-9]+, bucket 3: ", fault.error)));
    EXPECT_EQ(exit_of(rank), int(Exit::distributed));
  }
}

// The ranks that live compute for so long that they see the connection break meanwhile.
TEST_P(PausedProcesses, NameARankThatDiedBetweenTwoCollectives) {
  start("pause", 3, GetParam());
  for (int rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(comes(cat("runs", rank), Timeout(40'000))) << why(rank) << why(0);
  kill(processes[2], SIGKILL);
  std::this_thread::sleep_for(Timeout(1000));
  write_file(folder / "go", bytes_of(""));
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(comes(cat("why", rank), Timeout(10'000)));
    EXPECT_EQ(why(rank).find("gloo: step 4, bucket 3: rank 2 left and gave no cause; "), 0)
        << why(rank);
    EXPECT_EQ(exit_of(rank), int(Exit::distributed));
  }
}
