// Adaptive thread count: the rule alone, then real threads that compete with busy processes.
#include "core/device/adaptive_threads.h"
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include "core/base/trace.h"
#include "core/device/affinity.h"
#include "core/device/parallel.h"

using namespace bellows;
using namespace std::chrono_literals;

constexpr int64_t kMs = 1'000'000;

TEST(ThreadGovernorTest, KeepsAllThreadsWhileTheyHardlyWait) {
  ThreadGovernor governor(8);
  for (int64_t now = 0; now < 1000 * kMs; now += 20 * kMs)
    EXPECT_EQ(governor.next(now, 20 * kMs, 0.19), 8);
}

TEST(ThreadGovernorTest, TakesAwayTheShareThatWaits) {
  EXPECT_EQ(ThreadGovernor(8).next(0, 20 * kMs, 0.5), 4);
  EXPECT_EQ(ThreadGovernor(8).next(0, 20 * kMs, 0.21), 6);
  EXPECT_EQ(ThreadGovernor(2).next(0, 20 * kMs, 0.21), 1);
  EXPECT_EQ(ThreadGovernor(2).next(0, 20 * kMs, 1), 1);
  EXPECT_EQ(ThreadGovernor(1).next(0, 20 * kMs, 0.9), 1);
}

// Returns how many of the next `count` windows use all threads while the machine stays busy.
static int windows_with_all(ThreadGovernor& governor, int64_t begin, int64_t count) {
  int all = 0;
  for (int64_t i = 0; i < count; ++i)
    all += governor.next(begin + i * 20 * kMs, 20 * kMs, 0.6) == 2;
  return all;
}

TEST(ThreadGovernorTest, TriesAllThreadsAgainAfterPausesThatDouble) {
  ThreadGovernor governor(2);
  EXPECT_EQ(windows_with_all(governor, 0, 5), 0);          // a pause of 100 ms
  EXPECT_EQ(windows_with_all(governor, 100 * kMs, 1), 1);  // then all threads, for one window
  EXPECT_EQ(windows_with_all(governor, 120 * kMs, 10), 0);
  EXPECT_EQ(windows_with_all(governor, 320 * kMs, 1), 1);
  EXPECT_LE(windows_with_all(governor, 340 * kMs, 3000), 33) << "once in 2 s at last";
}

TEST(ThreadGovernorTest, PausesAreShortAgainAfterACalmTime) {
  ThreadGovernor governor(2);
  windows_with_all(governor, 0, 1000);  // until pauses are 2 s
  int64_t now = 20'000 * kMs;
  for (int i = 0; i < 500; ++i) governor.next(now += 20 * kMs, 20 * kMs, 0);
  EXPECT_EQ(governor.next(now += 20 * kMs, 20 * kMs, 0.6), 1);
  EXPECT_EQ(governor.next(now + 100 * kMs, 20 * kMs, 0), 2);
}

TEST(ThreadGovernorTest, PausesAreShortAgainAfterTheProcessWasIdle) {
  ThreadGovernor governor(2);
  windows_with_all(governor, 0, 1000);  // until pauses are 2 s
  const int64_t now = 25'000 * kMs;     // 5 s without a call
  EXPECT_EQ(governor.next(now, 5'000 * kMs, 0), 2);
  EXPECT_EQ(governor.next(now + 20 * kMs, 20 * kMs, 0.6), 1);
  EXPECT_EQ(governor.next(now + 120 * kMs, 20 * kMs, 0), 2);
}

// ---- real threads

namespace {

void run_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// Two threads of the pool and two busy processes share one core.
class OnOneCore : public testing::Test {
 protected:
  OnOneCore() {
    omp_set_num_threads(2);
#pragma omp parallel
    run_on(cores_.front());
    restart_workers([core = cores_.front()](int) { run_on(core); });
    for (pid_t& child : busy_) child = spin();
  }
  ~OnOneCore() override {
    stop();
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const int core : cores_) CPU_SET(core, &all);
#pragma omp parallel
    sched_setaffinity(0, sizeof(all), &all);
    restart_workers({});
    omp_set_num_threads(before_);
    watch_pool(before_, Adaptive::off);
  }

  pid_t spin() {
    const pid_t child = fork();
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) asm volatile("");
  }
  void stop() {
    for (pid_t& child : busy_)
      if (const pid_t process = std::exchange(child, 0)) {
        kill(process, SIGKILL);
        waitpid(process, nullptr, 0);
      }
  }
  // Runs short parallel regions until `threads` are in use. Returns false after ten seconds.
  static bool comes_to_use(int threads) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < end) {
      std::atomic<int64_t> sum = 0;
      parallel_for(64, 1, [&](int64_t i, int64_t) {
        for (int64_t k = 0; k < 20'000; ++k) sum.fetch_add(i, std::memory_order_relaxed);
      });
      adapt_threads();
      if (threads_in_use() == threads) return true;
    }
    return false;
  }

  const std::vector<int> cores_ = process_cores();
  const int before_ = omp_get_max_threads();
  pid_t busy_[2] = {};
};

}  // namespace

TEST_F(OnOneCore, OneThreadIsUsedWhileOthersAreBusyAndTheLibrariesKeepTheirs) {
  trace::Counter& taken = trace::counter("cpu.fewer_threads");
  const int64_t before = taken.value();
  watch_pool(2, Adaptive::on);
  ASSERT_TRUE(comes_to_use(1));
  EXPECT_GT(taken.value(), before);
  EXPECT_EQ(omp_get_max_threads(), 2);
  EXPECT_EQ(pool_threads(), 2);
  EXPECT_GT(cpu_time().waited_ns, 0);
  EXPECT_TRUE(comes_to_use(2)) << "after a pause";
}

TEST_F(OnOneCore, UnderAllTheLibrariesUseFewerToo) {
  trace::Counter& library = trace::counter("cpu.library_threads");
  const int64_t before = library.value();
  watch_pool(2, Adaptive::all);
  ASSERT_TRUE(comes_to_use(1));
  EXPECT_EQ(omp_get_max_threads(), 1);
  EXPECT_GT(library.value(), before);
  EXPECT_TRUE(comes_to_use(2));
  EXPECT_EQ(omp_get_max_threads(), 2);
}

TEST_F(OnOneCore, OffKeepsAllThreads) {
  trace::Counter& readings = trace::counter("cpu.wait_readings");
  const int64_t before = readings.value();
  watch_pool(2, Adaptive::off);
  std::this_thread::sleep_for(30ms);
  adapt_threads();
  EXPECT_EQ(threads_in_use(), 2);
  EXPECT_EQ(readings.value(), before);
}
