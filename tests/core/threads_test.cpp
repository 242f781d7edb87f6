// The thread budget, quotas of cgroups, and the counting mutex.
#include "core/device/threads.h"
#include <gtest/gtest.h>
#include <omp.h>
#include <fstream>
#include <thread>
#include "core/base/mutex.h"
#include "tests/moved.h"
#include "tests/temp_folder.h"

using namespace bellows;

TEST(Quota, IsTheSmallestOfTheGroupAndThoseAboveIt) {
  const struct {
    const char *membership, *file, *text;
    int cores;
  } steps[] = {
      {"0::/jobs/mine\n", "unrelated", "", 0},
      {"0::/jobs/mine\n", "jobs/mine/cpu.max", "max 100000\n", 0},
      {"0::/jobs/mine\n", "jobs/mine/cpu.max", "650000 100000\n", 6},
      {"0::/jobs/mine\n", "jobs/cpu.max", "350000 100000\n", 3},
      {"0::/jobs/mine\n", "jobs/mine/cpu.max", "50000 100000\n", 1},
      // In a container, whose path is the host's.
      {"0::/somewhere/else\n", "cpu.max", "200000 100000\n", 2},
  };
  const TempFolder root;
  for (const auto& [membership, file, text, cores] : steps) {
    root.write("membership", membership);
    root.write(file, text);
    EXPECT_EQ(quota_cores(root.path, root.path / "membership"), cores) << file << " " << text;
  }
}

TEST(Quota, KnowsTheFirstVersionToo) {
  const TempFolder root;
  root.write("membership", "4:memory:/m\n2:cpu,cpuacct:/jobs\n0::/\n");
  root.write("cpu/jobs/cpu.cfs_period_us", "100000\n");
  for (const auto& [quota, cores] : {std::pair("-1\n", 0), {"400000\n", 4}}) {
    root.write("cpu/jobs/cpu.cfs_quota_us", quota);
    EXPECT_EQ(quota_cores(root.path, root.path / "membership"), cores);
  }
}

TEST(Threads, BudgetDividesTheAllowedCoresByTheRanks) {
  const int before = omp_get_max_threads(), cores = allowed_cores();
  const Moved withheld("cpu.threads_withheld");
  apply({.threads = cores + 3});
  EXPECT_EQ(omp_get_max_threads(), cores + 3);
  EXPECT_GE(trace::counter("cpu.peak_threads").value(), cores + 3);
  EXPECT_EQ(withheld, 0);
  apply({.threads = cores + 3, .budget = true});
  EXPECT_EQ(omp_get_max_threads(), cores);
  apply({.threads = cores + 3, .budget = true}, 2 * cores);
  EXPECT_EQ(omp_get_max_threads(), 1);
  apply({.threads = 1, .budget = true});
  EXPECT_EQ(omp_get_max_threads(), 1);
  EXPECT_EQ(withheld, 3 + cores + 2);
  omp_set_num_threads(before);
}

TEST(Threads, AreNamed) {
  std::string name;
  std::thread([&] {
    name_thread("a name that is too long");
    std::getline(std::ifstream("/proc/thread-self/comm"), name);
  }).join();
  EXPECT_EQ(name, "a name that is ");
}

TEST(Mutex, CountsTheAcquisitionsThatHadToWait) {
  Mutex mutex("test");
  const Moved all("lock.contended"), mine("lock.test.contended"), wait("lock.test.wait_ns");
  { const std::lock_guard lock(mutex); }
  EXPECT_EQ(all, 0);
  for (const bool stats : {false, true}) {
    Mutex::collect_stats(stats);
    const int64_t waits = all;
    mutex.lock();
    std::thread other([&] { const std::lock_guard lock(mutex); });
    while (all == waits) std::this_thread::yield();
    mutex.unlock();
    other.join();
    EXPECT_EQ(all, waits + 1);
    EXPECT_EQ(mine, stats ? 1 : 0);
    EXPECT_EQ(wait > 0, stats);
  }
  Mutex::collect_stats(false);
}
