// Ranks that are processes and meet over the real store. Results are the same over TCP and through
// shared memory; and one rank is killed or stopped in the middle of a collective, or killed between
// two.
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
#include "tests/free_port.h"
#include "tests/refusal.h"

using namespace bellows;
using SteadyClock = std::chrono::steady_clock;

namespace {

constexpr double kTimeout = 2;  // of a collective, in seconds

// The options of a rank, as text in its environment.
struct Place {
  std::string job;  // "reduce", "pause" or "compare"
  int rank, world, port;
  bool shared;
  Path folder;
};

std::unique_ptr<ProcessGroup> gloo_of(const GroupContext& context, bool shared) {
  const Values values = {{"shared_memory", {shared ? "true" : "false"}}};
  Load load(values);
  Choice<MakeGroup> gloo("gloo");
  gloo.visit_options(load);
  return gloo.make(context);
}

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
  const auto group = gloo_of(context, place.shared);
  const Tensor t = full({4'000'000}, 1);
  for (;;) {
    ++group->step;
    try {
      group->all_reduce(t, Reduction::mean, "bucket 3").wait();
    } catch (const Error& failed) {
      write("error", failed.what());
      throw;
    }
    if (group->step != 3) continue;
    write("runs", "");
    if (place.job == "pause") comes(place.folder / "go", Timeout(60'000));
  }
}

// Element i of a rank. Sums of eight ranks are exact in every dtype.
double small_integer(int rank, int64_t i) { return double((i * 7 + rank * 3) % 17 - 8); }

// Returns the bits that each collective leaves on this rank, for all dtypes and sizes.
std::string results_of(ProcessGroup& group) {
  std::string bits;
  const auto add = [&](const Tensor& t) {
    bits.append(reinterpret_cast<const char*>(t.bytes()), t.nbytes());
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64})
    for (const int64_t n : {0, 1, 7, 16'384, 16'385, 300'001}) {
      const int64_t world = group.world();
      const auto values = [&](int64_t count) {
        const Tensor t({count}, dtype);
        visit_dtype(dtype, [&]<class T>(T) {
          for (int64_t i = 0; i < count; ++i)
            t.ptr<T>()[i] = convert<T>(small_integer(group.rank(), i));
        });
        return t;
      };
      const Tensor sum = values(n), mean = values(n), mine = values(n), all = values(n * world);
      std::vector<Work> works;
      works.push_back(group.all_reduce(sum, Reduction::sum, "sum"));
      if (dtype != DType::i64) works.push_back(group.all_reduce(mean, Reduction::mean, "mean"));
      works.push_back(group.all_gather(mine, all, "gathered"));
      for (const Work& work : works) work.wait();
      for (const Tensor& t : {sum, mean, all}) add(t);
      for (int root = 0; root < world; ++root) {
        const Tensor t = values(n), parts = values(n * world);
        group.broadcast(t, root, "root's").wait();
        add(t);
        group.gather(mine, parts, root, "at the root");
        if (group.rank() == root) add(parts);
        group.scatter(parts, t, root, "part");
        add(t);
      }
    }
  return bits;
}

void compare(const Place&, GroupContext context) {
  context.options.timeout_s = 30;
  const auto shared_bytes = [] { return trace::counters()["dist.shared_bytes"]; };
  const std::string over_tcp = results_of(*gloo_of(context, false));
  CHECK(shared_bytes() == 0, "values went through shared memory");
  CHECK(results_of(*gloo_of(context, true)) == over_tcp, "the bits differ");
  CHECK(shared_bytes() > 0, "no values went through shared memory");
}

[[noreturn]] void run_rank(const Place& place) {
  const Refusal error = refused([&] {
    GroupContext context;
    context.ranks.rank = context.ranks.local_rank = place.rank;
    context.ranks.world = context.ranks.local_world = place.world;
    context.ranks.port = place.port;
    DistOptions patient;
    patient.timeout_s = 30;  // of the start on a busy machine
    context.store = meet(context.ranks, patient);
    context.options.timeout_s = place.job == "pause" ? 60 : kTimeout;
    place.job == "compare" ? compare(place, context) : reduce(place, context);
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

class EqualProcesses : public Processes, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, EqualProcesses, testing::Values(2, 3, 4));

}  // namespace

TEST(GlooProcess, DISABLED_RunsARank) {
  const char* const text = std::getenv("BELLOWS_TEST_GLOO_RANK");
  if (!text) GTEST_SKIP() << "started by the tests below";
  std::istringstream in(text);
  Place place;
  in >> place.job >> place.rank >> place.world >> place.port >> place.shared >> place.folder;
  run_rank(place);
}

TEST_P(EqualProcesses, HaveTheSameBitsOverTcpAndInMemory) {
  start("compare", GetParam(), true);
  for (int rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(exit_of(rank), 0) << why(rank);
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
