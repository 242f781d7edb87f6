// Topology of the machine's CPUs and memory, from /sys: sockets, cores, NUMA nodes.
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
  std::vector<NumaNode> nodes;  // ascending; if the system lists none, one with all CPUs
  int cpus = 0;                 // hardware threads that are online
  int cores = 0;                // physical cores
  int sockets = 0;
};

// Reads the topology. For tests, `sys` is a folder that looks like /sys.
Topology read_topology(const std::filesystem::path& sys = "/sys");

// Returns the NUMA node of a PCI device ("0000:3b:00.0"); -1 if unknown or if there is only one.
int node_of_pci(const std::string& device, const std::filesystem::path& sys = "/sys");

// A hardware thread and its place. A node or package that the system does not report is 0.
struct Core {
  int cpu;  // the system's number
  int node = 0, package = 0;
  int core = 0;     // within the package
  int sibling = 0;  // 0 for the first thread of a core, 1 for its second
  bool operator==(const Core&) const = default;
};
// Returns the given CPUs, ascending, with their places.
std::vector<Core> cores_of(std::vector<int> cpus, const std::filesystem::path& sys = "/sys");

// Order in which threads get cores. In either, each thread has a whole core while there are enough.
// compact: close to each other, socket by socket. spread: the NUMA nodes in rotation.
enum class Pinning { off, compact, spread, list };
std::vector<int> placement(std::vector<Core> cores, Pinning pinning);

// Returns the first line of a file, or "" if there is none.
std::string first_line(const std::filesystem::path& path);
// Returns the value in the first line "name: value" or "name value" of a file of /proc: "99 kB" for
// MemTotal in /proc/meminfo. "" if there is none.
std::string value_in(const std::filesystem::path& path, const std::string& name);
inline std::string cpu_info(const std::string& name) { return value_in("/proc/cpuinfo", name); }
inline std::string cpu_model() { return cpu_info("model name"); }  // "Intel(R) Xeon(R) ..."

// Convert between "0-3,8" and {0, 1, 2, 3, 8}. Invalid text gives an empty list.
std::vector<int> parse_cpu_list(const std::string& text);
std::string cpu_list(const std::vector<int>& cpus);

}  // namespace bellows
