// Where the machine's CPUs and memory are, as /sys tells it: sockets, cores, NUMA nodes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bellows {

struct NumaNode {
  int id = 0;
  std::vector<int> cpus;     // ascending
  int64_t memory_bytes = 0;  // 0: unknown
};

struct Topology {
  std::vector<NumaNode> nodes;  // ascending; where the system names none, one with every CPU
  int cpus = 0;                 // online, as the scheduler counts: hardware threads
  int cores = 0;                // with one or more of them each
  int sockets = 0;
};

// The argument is for tests: a folder that looks like /sys.
Topology read_topology(const std::filesystem::path& sys = "/sys");

// The node that a PCI device ("0000:3b:00.0") hangs on; -1: unknown, or there is only one.
int node_of_pci(const std::string& device, const std::filesystem::path& sys = "/sys");

// A hardware thread, and where it is; what the system does not tell is 0.
struct Core {
  int cpu;  // as the system numbers it
  int node = 0, package = 0;
  int core = 0;     // within the package
  int sibling = 0;  // 0 for the first thread of a core, 1 for its second
  bool operator==(const Core&) const = default;
};
// Of these processors, in ascending order.
std::vector<Core> cores_of(std::vector<int> cpus, const std::filesystem::path& sys = "/sys");

// An order in which to give cores to threads; either way a thread has a whole core while there are
// enough. compact: near each other, one socket after the other; spread: in turn over the sockets.
enum class Pinning { off, compact, spread, list };
std::vector<int> placement(std::vector<Core> cores, Pinning pinning);

// What /proc/cpuinfo says of the first CPU under that name, as "flags".
std::string cpu_info(const std::string& name);
inline std::string cpu_model() { return cpu_info("model name"); }  // "Intel(R) Xeon(R) ..."

// "0-3,8" and {0, 1, 2, 3, 8}. Text that is no such list gives an empty one.
std::vector<int> parse_cpu_list(const std::string& text);
std::vector<int> checked_cpu_list(const std::string& text);  // refuses such text, exit 2
std::string cpu_list(const std::vector<int>& cpus);

}  // namespace bellows
