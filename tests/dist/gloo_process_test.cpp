// Ranks that are processes and meet over the real store: one is killed or stopped in the middle of
// a collective.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <sstream>
#include <thread>
#include "core/base/file.h"
#include "dist/groups/process_group.h"
#include "tests/free_port.h"
#include "tests/refusal.h"

using namespace bellows;
using SteadyClock = std::chrono::steady_clock;

namespace {

constexpr double kTimeout = 1;  // of a collective, in seconds

// Reduces until a collective fails. Writes `error<rank>` into the folder, and `runs<rank>` before.
[[noreturn]] void run_rank(int rank, int world, int port, const Path& folder) {
  const auto write = [&](const char* name, const std::string& text) {
    write_file(folder / cat(name, rank), bytes_of(text));
  };
  const Refusal error = refused([&] {
    GroupContext context;
    context.ranks.rank = context.ranks.local_rank = rank;
    context.ranks.world = context.ranks.local_world = world;
    context.ranks.port = port;
    DistOptions patient;
    patient.timeout_s = 30;  // of the start on a busy machine
    context.store = meet(context.ranks, patient);
    context.options.timeout_s = kTimeout;
    const auto group = Choice<MakeGroup>("gloo").make(context);
    const Tensor t = full({4'000'000}, 1);
    for (;;) {
      ++group->step;
      try {
        group->all_reduce(t, Reduction::mean, "bucket 3")->wait();
      } catch (const Error& failed) {
        write("error", failed.what());
        throw;
      }
      if (group->step == 3) write("runs", "");
    }
  });
  _exit(int(error.exit));
}

struct Fault {
  int world, victim, signal;
  const char* error;  // of the others, after "gloo: step 4, bucket 3: "
};

class GlooProcesses : public testing::TestWithParam<Fault> {
 protected:
  ~GlooProcesses() override {
    for (const pid_t process : processes) {
      if (!process) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  void start(int world) {
    const int port = free_port();
    // A rank runs one test, which may be in another part of the suite.
    for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) unsetenv(name);
    for (int rank = 0; rank < world; ++rank) {
      const std::string place = cat(rank, " ", world, " ", port, " ", folder.string());
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
  // Waits for a file of that name.
  bool comes(const std::string& name, Timeout timeout) const {
    for (const auto end = SteadyClock::now() + timeout; access((folder / name).c_str(), R_OK);) {
      if (SteadyClock::now() >= end) return false;
      std::this_thread::sleep_for(Timeout(2));
    }
    return true;
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
    {2, 1, SIGSTOP, "rank 1 did not answer within 1 s; .*"},
    {3, 2, SIGSTOP, "rank 2 did not answer within 1 s; .*"},
    {3, 0, SIGSTOP, ".*rank 0 .*"},
};
std::string name_of(const testing::TestParamInfo<Fault>& info) {
  const Fault& fault = info.param;
  return cat("Rank", fault.victim, "Of", fault.world,
             fault.signal == SIGKILL ? "Killed" : "Stopped");
}
INSTANTIATE_TEST_SUITE_P(Faults, GlooProcesses, testing::ValuesIn(kFaults), name_of);

}  // namespace

TEST(GlooProcess, DISABLED_RunsARank) {
  const char* const place = std::getenv("BELLOWS_TEST_GLOO_RANK");
  if (!place) GTEST_SKIP() << "started by the tests below";
  std::istringstream in(place);
  int rank, world, port;
  std::string folder;
  in >> rank >> world >> port >> folder;
  run_rank(rank, world, port, folder);
}

TEST_P(GlooProcesses, SurvivorsEndInTimeAndNameTheRank) {
  const Fault& fault = GetParam();
  start(fault.world);
  for (int rank = 0; rank < fault.world; ++rank)
    ASSERT_TRUE(comes(cat("runs", rank), Timeout(40'000)));
  const auto limit = SteadyClock::now() + Timeout(int64_t(kTimeout * 1000) + 2000);
  kill(processes[fault.victim], fault.signal);
  for (int rank = 0; rank < fault.world; ++rank) {
    if (rank == fault.victim) continue;
    const std::string file = cat("error", rank);
    ASSERT_TRUE(comes(file, std::chrono::ceil<Timeout>(limit - SteadyClock::now())));
    EXPECT_THAT(read_file(folder / file, 10'000, Exit::data),
                testing::MatchesRegex(cat("gloo: step [0-9]+, bucket 3: ", fault.error)));
    int status = 0;
    waitpid(std::exchange(processes[rank], 0), &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), int(Exit::distributed));
  }
}
