// Pinning of threads to cores, and of processes to NUMA nodes.
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <set>
#include <thread>
#include "core/base/trace.h"
#include "core/device/threads.h"
#include "core/device/topology.h"
#include "tests/refusal.h"
#include "tests/temp_folder.h"

using namespace bellows;

namespace {

// A folder that looks like /sys.
class FakeSystem : public testing::Test {
 protected:
  ~FakeSystem() override { unpin_threads(); }
  void write(const std::string& name, const std::string& text) const {
    folder_.write("devices/system/" + name, text);
  }
  void node(int number, const std::string& cpus) const {
    write(cat("node/node", number, "/cpulist"), cpus + "\n");
  }

  const TempFolder folder_;
  const std::filesystem::path root_ = folder_.path;
};

std::vector<int> my_cores() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cores.push_back(cpu);
  return cores;
}

std::vector<std::vector<int>> cores_of_the_pool() {
  std::vector<std::vector<int>> cores(omp_get_max_threads());
#pragma omp parallel
  cores[omp_get_thread_num()] = my_cores();
  return cores;
}

}  // namespace

TEST(Pinning, GivesEachThreadACoreOfItsOwn) {
  const int before = omp_get_max_threads();
  const std::vector<int> all = my_cores();
  trace::Counter& pinned = trace::counter("cpu.core_pinning");
  for (const enum Pinning way : {Pinning::compact, Pinning::spread, Pinning::list}) {
    const int64_t counted = pinned.value();
    apply({.threads = static_cast<int>(all.size()), .pinning = way});
    std::set<int> used;
    for (const std::vector<int>& cores : cores_of_the_pool()) {
      EXPECT_EQ(cores.size(), 1u);
      used.insert(cores.begin(), cores.end());
    }
    EXPECT_EQ(used, std::set(all.begin(), all.end()));
    EXPECT_EQ(pinned.value(), counted + static_cast<int64_t>(all.size()));
  }
  apply({.threads = before});
  for (const std::vector<int>& cores : cores_of_the_pool()) EXPECT_EQ(cores, all);
}

TEST(Pinning, MoreThreadsThanCoresShareThem) {
  const int before = omp_get_max_threads();
  const std::vector<int> all = my_cores();
  apply({.threads = static_cast<int>(all.size()) + 1,
         .pinning = Pinning::list,
         .cores = cat(all[0])});
  for (const std::vector<int>& cores : cores_of_the_pool()) EXPECT_EQ(cores, std::vector{all[0]});
  apply({.threads = before});
}

TEST(Pinning, RefusesACoreThatTheProcessMayNotUse) {
  const Refusal refusal = refused([] { apply({.pinning = Pinning::list, .cores = "999"}); });
  EXPECT_EQ(refusal.message, "threads.cores: core 999 is not allowed to this process");
  apply({});
}

// A thread made by a pinned one would otherwise share its core with it.
TEST(Pinning, LeavesOtherThreadsAllCores) {
  const int before = omp_get_max_threads();
  const std::vector<int> all = my_cores();
  apply({.threads = 1, .pinning = Pinning::compact});
  EXPECT_EQ(my_cores().size(), 1u);
  EXPECT_GE(allowed_cores(), std::min<int>(2, all.size())) << "the budget is the process's";
  std::vector<int> others;
  std::thread([&] {
    name_thread("other");
    others = my_cores();
  }).join();
  EXPECT_EQ(others, all);
  apply({.threads = before});
}

// ---- NUMA nodes

TEST_F(FakeSystem, OneNodeHelpsNobody) {
  const int64_t bound = trace::counter("cpu.node_bound").value();
  EXPECT_EQ(bind_to_node(0, root_), -1);
  write("node/online", "0\n");
  node(0, "0-63");
  EXPECT_EQ(bind_to_node(0, root_), -1);
  EXPECT_EQ(trace::counter("cpu.node_bound").value(), bound);
}

TEST_F(FakeSystem, RanksTakeTheNodesInTurn) {
  const std::vector<int> all = my_cores();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  const std::vector<int> first{all[0]}, rest(all.begin() + 1, all.end());
  write("node/online", "0-1\n");
  node(0, cat(all[0]));
  node(1, cat(all[1], "-", all.back()));
  trace::Counter& bound = trace::counter("cpu.node_bound");
  const int64_t before = bound.value();
  for (const auto& [rank, cores] : {std::pair{0, first}, {1, rest}, {2, first}}) {
    EXPECT_EQ(bind_to_node(rank, root_), rank % 2);
    EXPECT_EQ(process_cores(), cores);
    for (const std::vector<int>& of_thread : cores_of_the_pool()) EXPECT_EQ(of_thread, cores);
  }
  EXPECT_EQ(bound.value(), before + 3);
  unpin_threads();
  EXPECT_EQ(my_cores(), all);
  EXPECT_EQ(process_cores(), all);
}
