#include "core/device/topology.h"
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include "core/base/check.h"

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

}  // namespace bellows
