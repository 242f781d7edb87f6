#include "core/topology.h"
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>
#include "core/check.h"

namespace bellows {

namespace fs = std::filesystem;

std::vector<int> cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream range(part);
    int first = -1, last = -1;
    char dash = 0;
    if (range >> first && !(range >> dash)) last = first;
    if (dash == '-') range >> last;
    const bool whole = range.peek() == std::istringstream::traits_type::eof();
    CHECK(whole && 0 <= first && first <= last && last < 1 << 16, "'", text,
          "' is no list of cores; write it as 0-3,8");
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

static int number_in(const fs::path& file) {
  int number = 0;
  std::ifstream(file) >> number;
  return std::max(number, 0);
}

static std::string line_in(const fs::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

std::vector<int> memory_nodes(const fs::path& root) {
  std::vector<int> nodes;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "node", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos)
      nodes.push_back(std::stoi(name.substr(4)));
  }
  std::ranges::sort(nodes);
  return nodes;
}

std::vector<Core> topology(std::vector<int> cpus, const fs::path& root) {
  std::map<int, int> node_of;
  for (const int node : memory_nodes(root))
    for (const int cpu : cpu_list(line_in(root / "node" / cat("node", node) / "cpulist")))
      node_of[cpu] = node;
  std::ranges::sort(cpus);
  std::map<std::pair<int, int>, int> siblings;
  std::vector<Core> cores;
  for (const int cpu : cpus) {
    const fs::path of_cpu = root / "cpu" / cat("cpu", cpu) / "topology";
    const int package = number_in(of_cpu / "physical_package_id");
    // A core that the system does not describe is one of its own.
    const bool known = fs::exists(of_cpu / "core_id");
    const int core = known ? number_in(of_cpu / "core_id") : cpu;
    cores.push_back({cpu, node_of[cpu], package, core, siblings[{package, core}]++});
  }
  return cores;
}

std::vector<int> placement(std::vector<Core> cores, Pinning pinning) {
  std::ranges::sort(cores, {}, [](const Core& c) {
    return std::tuple(c.sibling, c.package, c.node, c.core, c.cpu);
  });
  if (pinning == Pinning::spread) {
    std::map<int, int> on_node;
    std::map<int, int> turn;  // by cpu: how many of its node come before it
    for (const Core& c : cores) turn[c.cpu] = on_node[c.node]++;
    std::ranges::stable_sort(cores, {}, [&](const Core& c) { return turn[c.cpu]; });
  }
  std::vector<int> order;
  for (const Core& c : cores) order.push_back(c.cpu);
  return order;
}

}  // namespace bellows
