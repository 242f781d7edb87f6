#include "trainer/log/machine_load.h"
#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include "core/base/trace.h"

namespace bellows {

double MachineLoad::cpu() const {
  return std::accumulate(cores.begin(), cores.end(), 0.0) / std::max(double(cores.size()), 1.0);
}

// Value of a line "name   number" or "name:   number", as in /proc/meminfo; 0 without it.
static double value_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    double value = 0;
    if (words >> word >> value && (word == name || word == name + ":")) return value;
  }
  return 0;
}

LoadMeter::Reading LoadMeter::read() {
  Reading now{.at_ns = trace::now_ns(), .disk_bytes = 1024 * value_in("/proc/vmstat", "pgpgin")};
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name == "cpu") continue;  // the line "cpu" is their sum
    std::vector<double> ticks;  // user nice system idle iowait irq softirq steal ...
    for (double n; ticks.size() < 8 && words >> n;) ticks.push_back(n);
    ticks.resize(8);
    const double all = std::accumulate(ticks.begin(), ticks.end(), 0.0);
    now.all.push_back(all);
    now.busy.push_back(all - ticks[3] - ticks[4]);
  }
  return now;
}

LoadMeter::LoadMeter() : last_(read()) {}

std::optional<MachineLoad> LoadMeter::next() {
  constexpr int64_t kSecond = 1'000'000'000;
  if (trace::now_ns() - last_.at_ns < kSecond) return {};
  const Reading from = std::exchange(last_, read());
  MachineLoad load;
  for (size_t i = 0; i < std::min(from.all.size(), last_.all.size()); ++i)
    load.cores.push_back(std::clamp(
        (last_.busy[i] - from.busy[i]) / std::max(last_.all[i] - from.all[i], 1.0), 0.0, 1.0));
  load.memory_bytes =
      1024 * (value_in("/proc/meminfo", "MemTotal") - value_in("/proc/meminfo", "MemAvailable"));
  load.disk_bytes_per_s =
      (last_.disk_bytes - from.disk_bytes) / (1e-9 * double(last_.at_ns - from.at_ns));
  return load;
}

}  // namespace bellows
