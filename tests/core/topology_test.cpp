// Sockets, cores and NUMA nodes, read from a folder that looks like /sys; pinning of threads to
// cores, and of processes to nodes.
#include "core/device/topology.h"
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <set>
#include <thread>
#include "core/device/threads.h"
#include "tests/moved.h"
#include "tests/refusal.h"
#include "tests/temp_folder.h"

using namespace bellows;
using Cpus = std::vector<int>;

class Sys : public testing::Test {
 protected:
  ~Sys() override { unpin_threads(); }
  void write(const std::string& name, const std::string& text) const {
    folder_.write(name, text + "\n");
  }
  void write_node(int node, const std::string& cpus, int64_t kilobytes) const {
    const std::string folder = cat("devices/system/node/node", node, "/");
    write(folder + "cpulist", cpus);
    write(folder + "meminfo", cat("Node ", node, " MemTotal:       ", kilobytes, " kB\nNode ", node,
                                  " MemFree:        1 kB"));
  }

  // Two sockets of two cores with two threads each, numbered like Intel's servers.
  void write_two_sockets() const {
    write("devices/system/cpu/online", "0-7");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string topology = cat("devices/system/cpu/cpu", cpu, "/topology/");
      write(topology + "thread_siblings_list", cat(cpu % 4, ",", cpu % 4 + 4));
      write(topology + "physical_package_id", cat(cpu % 4 / 2));
      write(topology + "core_id", cat(cpu % 2));
    }
    write("devices/system/node/online", "0-1");
    write_node(0, "0-1,4-5", 16384);
    write_node(1, "2-3,6-7", 32768);
  }

  const TempFolder folder_;
  const std::filesystem::path root_ = folder_.path;
};

TEST_F(Sys, TwoSocketsOfTwoCoresWithTwoThreadsEach) {
  write_two_sockets();
  write("bus/pci/devices/0000:3b:00.0/numa_node", "1");

  const Topology t = read_topology(root_);
  EXPECT_EQ(t.cpus, 8);
  EXPECT_EQ(t.cores, 4);
  EXPECT_EQ(t.sockets, 2);
  ASSERT_EQ(t.nodes.size(), 2U);
  EXPECT_EQ(t.nodes[0].cpus, (Cpus{0, 1, 4, 5}));
  EXPECT_EQ(t.nodes[1].cpus, (Cpus{2, 3, 6, 7}));
  EXPECT_EQ(t.nodes[1].memory_bytes, 32768 * 1024);
  EXPECT_EQ(node_of_pci("0000:3b:00.0", root_), 1);
  EXPECT_EQ(node_of_pci("0000:af:00.0", root_), -1);
}

TEST_F(Sys, NodesNeedNotBeNumberedWithoutGapsOrHaveCpus) {
  write("devices/system/cpu/online", "0-1");
  write("devices/system/node/online", "0,2");
  write_node(0, "0-1", 1024);
  write_node(2, "", 4096);  // memory only, like CXL
  const Topology t = read_topology(root_);
  ASSERT_EQ(t.nodes.size(), 2U);
  EXPECT_EQ(t.nodes[1].id, 2);
  EXPECT_EQ(t.nodes[1].cpus, Cpus{});
  EXPECT_EQ(t.cores, 2);  // without sibling files each CPU is a core
}

TEST_F(Sys, AMachineThatNamesNoNodesHasOne) {
  write("devices/system/cpu/online", "0,2-3");
  const Topology t = read_topology(root_);
  ASSERT_EQ(t.nodes.size(), 1U);
  EXPECT_EQ(t.nodes[0].cpus, (Cpus{0, 2, 3}));
  EXPECT_EQ(t.nodes[0].memory_bytes, 0);
}

TEST_F(Sys, CompactFillsASocketAndSpreadTakesThemInTurn) {
  EXPECT_EQ(placement(cores_of({2, 0, 1}, root_), Pinning::compact), (Cpus{0, 1, 2}));
  write_two_sockets();
  const std::vector<Core> cores = cores_of({0, 1, 2, 3, 4, 5, 6, 7}, root_);
  EXPECT_EQ(placement(cores, Pinning::compact), (Cpus{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(placement(cores, Pinning::spread), (Cpus{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(CpuList, GoesToTextAndBackOrIsRefused) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (Cpus{0, 1, 2, 3, 8}));
  for (const char* text : {"0", "0-3", "0-1,4-5", "3,5,7-9", ""})
    EXPECT_EQ(cpu_list(parse_cpu_list(text)), text);
  for (const char* wrong :
       {"a", "3-1", "0-", "-2", "1 2", "1,,2", "0-4000000000", "0-1x", "0-3,x"}) {
    SCOPED_TRACE(wrong);
    EXPECT_EQ(parse_cpu_list(wrong), Cpus{});
    const ThreadOptions options = {.pinning = Pinning::list, .cores = wrong};
    complaint(Exit::usage, [&] { apply(options); });
  }
}

// ---- pinning

static Cpus my_cores() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  Cpus cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cores.push_back(cpu);
  return cores;
}

static std::vector<Cpus> cores_of_the_pool() {
  std::vector<Cpus> cores(omp_get_max_threads());
#pragma omp parallel
  cores[omp_get_thread_num()] = my_cores();
  return cores;
}

TEST(Pinning, GivesEachThreadACoreOfItsOwn) {
  const int before = omp_get_max_threads();
  const Cpus all = my_cores();
  for (const enum Pinning way : {Pinning::compact, Pinning::spread, Pinning::list}) {
    const Moved pinned("cpu.core_pinning");
    apply({.threads = static_cast<int>(all.size()), .pinning = way});
    std::set<int> used;
    for (const Cpus& cores : cores_of_the_pool()) {
      EXPECT_EQ(cores.size(), 1u);
      used.insert(cores.begin(), cores.end());
    }
    EXPECT_EQ(used, std::set(all.begin(), all.end()));
    EXPECT_EQ(pinned, std::ssize(all));
  }
  apply({.threads = before});
  for (const Cpus& cores : cores_of_the_pool()) EXPECT_EQ(cores, all);
}

TEST(Pinning, MoreThreadsThanCoresShareThem) {
  const int before = omp_get_max_threads();
  const Cpus all = my_cores();
  apply({.threads = static_cast<int>(all.size()) + 1,
         .pinning = Pinning::list,
         .cores = cat(all[0])});
  for (const Cpus& cores : cores_of_the_pool()) EXPECT_EQ(cores, Cpus{all[0]});
  apply({.threads = before});
}

TEST(Pinning, RefusesACoreThatTheProcessMayNotUse) {
  EXPECT_EQ(refusal([] { apply({.pinning = Pinning::list, .cores = "999"}); }),
            "threads.cores: core 999 is not allowed to this process");
  apply({});
}

// A thread made by a pinned one would otherwise share its core with it.
TEST(Pinning, LeavesOtherThreadsAllCores) {
  const int before = omp_get_max_threads();
  const Cpus all = my_cores();
  apply({.threads = 1, .pinning = Pinning::compact});
  EXPECT_EQ(my_cores().size(), 1u);
  EXPECT_GE(allowed_cores(), std::min<int>(2, all.size())) << "the budget is the process's";
  Cpus others;
  std::thread([&] {
    name_thread("other");
    others = my_cores();
  }).join();
  EXPECT_EQ(others, all);
  apply({.threads = before});
}

TEST_F(Sys, RanksTakeTheNodesInTurn) {
  const Cpus all = my_cores();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  const Cpus first{all[0]}, rest(all.begin() + 1, all.end());
  EXPECT_EQ(bind_to_node(0, root_), -1) << "one node helps nobody";
  write("devices/system/node/online", "0-1");
  write_node(0, cat(all[0]), 1024);
  write_node(1, cat(all[1], "-", all.back()), 1024);
  const Moved bound("cpu.node_bound");
  for (const auto& [rank, cores] : {std::pair{0, first}, {1, rest}, {2, first}}) {
    EXPECT_EQ(bind_to_node(rank, root_), rank % 2);
    EXPECT_EQ(process_cores(), cores);
    for (const Cpus& of_thread : cores_of_the_pool()) EXPECT_EQ(of_thread, cores);
  }
  EXPECT_EQ(bound, 3);
  unpin_threads();
  EXPECT_EQ(my_cores(), all);
  EXPECT_EQ(process_cores(), all);
}
