#include "core/device/topology.h"
#include <linux/mempolicy.h>
#include <omp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include "core/base/check.h"
#include "core/base/trace.h"
#include "core/device/workers.h"

namespace bellows {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::string value_in(const fs::path& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find_first_not_of(": \t", name.size());
    if (line.starts_with(name) && at != name.size() && at != line.npos) return line.substr(at);
  }
  return "";
}

// ---- lists of CPUs

static constexpr int kMostCpus = 1 << 16;  // limit for hostile text; Linux supports 8192

// Parses "3" or "0-3"; returns false for anything else.
static bool append_range(const std::string& text, std::vector<int>& cpus) {
  std::istringstream in(text);
  int first = -1, last = -1;
  char dash = 0;
  if (!(in >> first)) return false;
  last = first;
  if (in >> dash && (dash != '-' || !(in >> last))) return false;
  if (first < 0 || last < first || last >= kMostCpus || !(in >> std::ws).eof()) return false;
  for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  return true;
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');)
    if (!append_range(range, cpus)) return {};
  return cpus;
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    text += cat(text.empty() ? "" : ",", cpus[i]);
    if (end > i) text += cat("-", cpus[end]);
    i = end + 1;
  }
  return text;
}

// ---- /sys

static std::vector<NumaNode> read_nodes(const fs::path& folder) {
  std::vector<NumaNode> nodes;
  for (const int id : parse_cpu_list(first_line(folder / "online"))) {
    const fs::path node = folder / cat("node", id);
    const std::string kib = value_in(node / "meminfo", cat("Node ", id, " MemTotal"));
    nodes.push_back({id, parse_cpu_list(first_line(node / "cpulist")),
                     std::strtoll(kib.c_str(), nullptr, 10) * 1024});
  }
  return nodes;
}

int node_of_pci(const std::string& device, const fs::path& sys) {
  int node = -1;
  std::ifstream(sys / "bus/pci/devices" / device / "numa_node") >> node;
  return node;
}

// ---- placement of threads

static int number_in(const fs::path& file) {
  int number = 0;
  std::ifstream(file) >> number;
  return std::max(number, 0);
}

std::vector<Core> cores_of(std::vector<int> cpus, const fs::path& sys) {
  std::map<int, int> node_of;
  for (const NumaNode& node : read_nodes(sys / "devices/system/node"))
    for (const int cpu : node.cpus) node_of[cpu] = node.id;
  std::ranges::sort(cpus);
  std::map<std::pair<int, int>, int> siblings;
  std::vector<Core> cores;
  std::error_code unreadable;
  for (const int cpu : cpus) {
    const fs::path of_cpu = sys / "devices/system/cpu" / cat("cpu", cpu) / "topology";
    const int package = number_in(of_cpu / "physical_package_id");
    // A CPU that the system does not describe counts as a core of its own.
    const bool known = fs::exists(of_cpu / "core_id", unreadable);
    const int core = known ? number_in(of_cpu / "core_id") : cpu;
    cores.push_back({cpu, node_of[cpu], package, core, siblings[{package, core}]++});
  }
  return cores;
}

Topology read_topology(const fs::path& sys) {
  const std::vector<int> online = parse_cpu_list(first_line(sys / "devices/system/cpu/online"));
  Topology found = {read_nodes(sys / "devices/system/node"), int(online.size())};
  if (found.nodes.empty()) found.nodes = {{0, online, 0}};
  std::set<int> packages;
  for (const Core& core : cores_of(online, sys))
    found.cores += core.sibling == 0, packages.insert(core.package);
  found.sockets = int(packages.size());
  return found;
}

std::vector<int> placement(std::vector<Core> cores, Pinning pinning) {
  std::ranges::sort(cores, {}, [](const Core& c) {
    return std::tuple(c.sibling, c.package, c.node, c.core, c.cpu);
  });
  if (pinning == Pinning::spread) {
    std::map<int, int> on_node;
    std::map<int, int> turn;  // by CPU: number of earlier CPUs of its node
    for (const Core& c : cores) turn[c.cpu] = on_node[c.node]++;
    std::ranges::stable_sort(cores, {}, [&](const Core& c) { return turn[c.cpu]; });
  }
  std::vector<int> order;
  for (const Core& c : cores) order.push_back(c.cpu);
  return order;
}

// ---- sets of cores in the system's format

// Consecutive cpu_set_t form one set, of 8192 processors, the most that Linux can have.
using CpuSet = std::array<cpu_set_t, 8>;

// Returns the cores that this thread may use; {0} if the system does not report them.
static std::vector<int> cores_of_thread() {
  CpuSet set{};
  if (sched_getaffinity(0, sizeof set, set.data()) != 0) return {0};
  std::vector<int> cores;
  for (int cpu = 0; cpu < int(8 * sizeof set); ++cpu)
    if (CPU_ISSET_S(cpu, sizeof set, set.data())) cores.push_back(cpu);
  return cores;
}

// Moves this thread to these cores. Returns false if they have gone offline.
static bool run_on(const std::vector<int>& cores) {
  CpuSet set{};
  for (const int cpu : cores) CPU_SET_S(cpu, sizeof set, set.data());
  return sched_setaffinity(0, sizeof set, set.data()) == 0;
}

// Calls place(thread) on each thread of the OpenMP team, and on workers when they start. Returns
// how often it returned true on the team.
static int place_threads(const std::function<bool(int thread)>& place) {
  int placed = 0;
#pragma omp parallel reduction(+ : placed)
  placed += place(omp_get_thread_num());
  restart_workers(place);
  return placed;
}

namespace {
struct Process {
  const std::vector<int> started = cores_of_thread();
  std::vector<int> cores = started;
  bool placed = false;
};
}  // namespace
static Process& process() {
  static Process all;
  return all;
}

std::vector<int> process_cores() { return process().cores; }

// ---- memory nodes

// Sets the policy of this thread and of threads that it creates; -1 restores the default.
// Preferred, not bound: a process bound to a full node would be killed while other nodes have room.
// An unknown node is refused by the system and changes nothing.
static void prefer_memory_of(int node) {
  unsigned long mask[16] = {};
  constexpr int kBits = 8 * sizeof(unsigned long);
  if (node >= 0) mask[node / kBits % 16] |= 1ul << (node % kBits);
  syscall(SYS_set_mempolicy, node < 0 ? MPOL_DEFAULT : MPOL_PREFERRED, node < 0 ? nullptr : mask,
          16 * kBits);
}

int bind_to_node(int local_rank, const fs::path& sys) {
  std::map<int, std::vector<int>> by_node;
  for (const Core& core : cores_of(process().started, sys)) by_node[core.node].push_back(core.cpu);
  if (by_node.size() < 2) return -1;
  const auto& [node, cores] = *std::next(by_node.begin(), local_rank % int(by_node.size()));
  process().cores = cores;
  process().placed = true;
  const int moved = place_threads([node = node](int) {
    prefer_memory_of(node);
    return run_on(process().cores);
  });
  if (moved > 0) trace::count<"cpu.node_bound">();
  return node;
}

// ---- cores

void pin_threads(Pinning pinning, const std::vector<int>& cores) {
  const std::vector<int>& allowed = process().cores;
  std::vector<int> order = pinning == Pinning::list ? cores : placement(cores_of(allowed), pinning);
  if (order.empty()) order = allowed;
  for (const int cpu : order)
    CHECK(std::ranges::count(allowed, cpu), "threads.cores: core ", cpu,
          " is not allowed to this process");
  process().placed = true;
  trace::count<"cpu.core_pinning">(place_threads(
      [order](int thread) { return run_on({order[static_cast<size_t>(thread) % order.size()]}); }));
}

void unpin_thread() {
  if (process().placed) run_on(process().cores);
}

void unpin_threads() {
  if (!process().placed) return;
  process().cores = process().started;
  place_threads([](int) {
    prefer_memory_of(-1);
    return run_on(process().cores);
  });
  process().placed = false;
}

int64_t migrations() {
  int64_t all = 0;
  bool known = false;
  std::error_code none;
  for (fs::directory_iterator task("/proc/self/task", none), end; task != end;
       task.increment(none)) {
    const std::string moves = value_in(task->path() / "sched", "se.nr_migrations");
    if (moves.empty()) continue;
    known = true;
    all += std::stoll(moves);
  }
  return known ? all : -1;
}

}  // namespace bellows
