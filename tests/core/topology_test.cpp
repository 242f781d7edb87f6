// Sockets, cores and NUMA nodes, read from a folder that looks like /sys.
#include "core/device/topology.h"
#include <gtest/gtest.h>
#include <cstdlib>
#include <fstream>
#include "core/base/check.h"

using namespace bellows;
namespace fs = std::filesystem;
using Cpus = std::vector<int>;

class Sys : public testing::Test {
 protected:
  Sys() {
    std::string name = (fs::temp_directory_path() / "bellows_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~Sys() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text << "\n";
  }
  void write_cpu(int cpu, const std::string& siblings, int socket) {
    const std::string topology = cat("devices/system/cpu/cpu", cpu, "/topology/");
    write(topology + "thread_siblings_list", siblings);
    write(topology + "physical_package_id", std::to_string(socket));
  }
  void write_node(int node, const std::string& cpus, int64_t kilobytes) {
    const std::string folder = cat("devices/system/node/node", node, "/");
    write(folder + "cpulist", cpus);
    write(folder + "meminfo", cat("Node ", node, " MemTotal:       ", kilobytes, " kB\nNode ", node,
                                  " MemFree:        1 kB"));
  }

  fs::path root_;
};

TEST_F(Sys, TwoSocketsOfTwoCoresWithTwoThreadsEach) {
  write("devices/system/cpu/online", "0-7");
  for (const int cpu : {0, 1, 2, 3}) {
    write_cpu(cpu, cat(cpu, ",", cpu + 4), cpu / 2);
    write_cpu(cpu + 4, cat(cpu, ",", cpu + 4), cpu / 2);
  }
  write("devices/system/node/online", "0-1");
  write_node(0, "0-1,4-5", 16384);
  write_node(1, "2-3,6-7", 32768);
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

TEST(CpuList, GoesToTextAndBack) {
  for (const char* text : {"0", "0-3", "0-1,4-5", "3,5,7-9", ""})
    EXPECT_EQ(cpu_list(parse_cpu_list(text)), text);
}

TEST(CpuList, IsEmptyIfTheTextIsNone) {
  for (const char* text : {"x", "1-", "-1", "3-1", "0-3,x", "0,,1", "0-4000000000", "1 2"})
    EXPECT_EQ(parse_cpu_list(text), Cpus{}) << text;
}

TEST(Topology, OfThisMachineHasCores) {
  const Topology t = read_topology();
  EXPECT_GE(t.cpus, t.cores);
  EXPECT_GE(t.cores, t.sockets);
  EXPECT_GE(t.sockets, 1);
}
