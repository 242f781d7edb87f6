// Topology of the machine's CPUs and memory, from /sys (sockets, cores, NUMA nodes), and placement
// of the process on them.
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

// ---- placement of the process: the cores that its threads run on, and the node of its pages

// Returns the cores that the process may use: all that it was started with or, if it is bound to a
// node, those of that node.
std::vector<int> process_cores();

// Moves the threads of the pool, and threads created later, to the cores of one NUMA node and
// prefers its memory. Ranks of one machine take the nodes in rotation. Returns the node and
// increments cpu.node_bound. With fewer than two nodes, returns -1 and changes nothing.
int bind_to_node(int local_rank, const std::filesystem::path& sys = "/sys");

// Pins each thread of the pool to one core, in placement() order; adds their number to
// cpu.core_pinning. `cores` is the order for Pinning::list: cores allowed to the process (else
// Error, exit 2), or empty for all of them, ascending.
void pin_threads(Pinning pinning, const std::vector<int>& cores);

void unpin_threads();  // undoes bind_to_node() and pin_threads()
void unpin_thread();   // undoes the pinning that this thread inherited from its creator

// Returns how often the system moved a thread of the process to another core, or -1 if unknown.
int64_t migrations();

// ---- files of the system

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
