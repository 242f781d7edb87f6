// Ranks that are processes: one is killed or stopped in the middle of a collective.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <thread>
#include "core/base/file.h"
#include "core/base/output.h"
#include "dist/process_group.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

namespace {

// A store of which each value is a file. It outlives all ranks.
class FolderStore : public Store {
 public:
  explicit FolderStore(const Path& folder)
      : folder_(folder), lock_(open_own_file(folder / "lock", O_RDWR)) {}
  void set(const std::string& key, const std::string& value) override {
    write_file(path_of(key), bytes_of(value));
  }
  std::string get(const std::string& key, Timeout timeout) override {
    if (!wait(key, timeout)) fail(Exit::distributed, "store: no value of '", key, "'");
    return read_file(path_of(key), 1 << 20, Exit::distributed);
  }
  bool wait(const std::string& key, Timeout timeout) override {
    for (const auto end = Clock::now() + timeout; access(path_of(key).c_str(), R_OK);) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(Timeout(1));
    }
    return true;
  }
  int64_t add(const std::string& key, int64_t n) override {
    flock(lock_.get(), LOCK_EX);
    const int64_t sum = n + (wait(key, Timeout(0)) ? std::stoll(get(key, Timeout(0))) : 0);
    set(key, std::to_string(sum));
    flock(lock_.get(), LOCK_UN);
    return sum;
  }
  void remove(const std::string& key) override { unlink(path_of(key).c_str()); }

 private:
  Path path_of(std::string key) const {
    std::ranges::replace(key, '/', '+');
    return folder_ / key;
  }
  const Path folder_;
  const Descriptor lock_;
};

constexpr double kTimeout = 1;  // of a collective, in seconds

// Reduces until a collective fails, and leaves the error in the store.
[[noreturn]] void run_rank(int rank, int world, const Path& folder) {
  const auto store = std::make_shared<FolderStore>(folder);
  GroupContext context;
  context.store = store;
  context.ranks.rank = context.ranks.local_rank = rank;
  context.ranks.world = context.ranks.local_world = world;
  context.options.timeout_s = kTimeout;
  const Refusal error = refused([&] {
    const auto group = Choice<MakeGroup>("gloo").make(context);
    const Tensor t = full({4'000'000}, 1);
    for (;;) {
      ++group->step;
      group->all_reduce(t, Reduction::mean, "bucket 3")->wait();
      if (group->step == 3) store->set(cat("runs/", rank), "");
    }
  });
  store->set(cat("error/", rank), error.message);
  _exit(int(error.exit));
}

class GlooProcesses : public testing::Test {
 protected:
  ~GlooProcesses() override {
    for (const pid_t process : processes_) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Starts the ranks, and once all are at work sends `signal` to the last one. Expects that the
  // others end in time and name it in their errors, with `text` after the name.
  void expect_survivors(int world, int signal, const std::string& text) {
    FolderStore store(folder_);
    for (int rank = 0; rank < world; ++rank) {
      setenv("BELLOWS_TEST_GLOO_RANK", cat(rank, " ", world, " ", folder_.string()).c_str(), 1);
      const pid_t process = fork();
      ASSERT_GE(process, 0);
      if (process == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        execl("/proc/self/exe", "dist_test", "--gtest_filter=*RunsARank",
              "--gtest_also_run_disabled_tests", nullptr);
        _exit(127);
      }
      processes_.push_back(process);
    }
    for (int rank = 0; rank < world; ++rank)
      ASSERT_TRUE(store.wait(cat("runs/", rank), Timeout(20'000)));
    const auto begin = Clock::now();
    kill(processes_.back(), signal);
    for (int rank = 0; rank < world - 1; ++rank) {
      int status = 0;
      waitpid(processes_[rank], &status, 0);
      EXPECT_EQ(WEXITSTATUS(status), int(Exit::distributed));
      EXPECT_THAT(store.get(cat("error/", rank), Timeout(0)),
                  testing::MatchesRegex(
                      cat("gloo: step [0-9]+, bucket 3: rank ", world - 1, " ", text, ".*")));
    }
    EXPECT_LT(Clock::now() - begin, Timeout(int(kTimeout * 1000) + 2000));
  }

 private:
  static Path fresh_folder() {
    std::string name = testing::TempDir() + "/gloo_XXXXXX";
    return mkdtemp(name.data());
  }
  const Path folder_ = fresh_folder();
  std::vector<pid_t> processes_;
};

}  // namespace

TEST(GlooProcess, DISABLED_RunsARank) {
  const char* const place = std::getenv("BELLOWS_TEST_GLOO_RANK");
  if (!place) GTEST_SKIP() << "started by the tests below";
  std::istringstream in(place);
  int rank, world;
  std::string folder;
  in >> rank >> world >> folder;
  run_rank(rank, world, folder);
}

TEST_F(GlooProcesses, EndWhenOneOfTwoIsKilled) {
  expect_survivors(2, SIGKILL, "left and gave no cause");
}
TEST_F(GlooProcesses, EndWhenOneOfThreeIsKilled) {
  expect_survivors(3, SIGKILL, "left and gave no cause");
}
TEST_F(GlooProcesses, EndWhenOneOfTwoIsStopped) {
  expect_survivors(2, SIGSTOP, "did not answer within 1 s");
}
TEST_F(GlooProcesses, EndWhenOneOfThreeIsStopped) {
  expect_survivors(3, SIGSTOP, "did not answer within 1 s");
}
