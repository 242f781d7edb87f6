// How busy the machine is: CPUs, memory and disks, as the kernel counts them in /proc.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace bellows {

// CPU time since boot, in ticks. `stolen`: the hypervisor gave it to other machines.
struct CpuTicks {
  int64_t all = 0, used = 0, stolen = 0;
};
CpuTicks parse_ticks(const std::string& line);  // of /proc/stat, "cpu3 user nice system idle ..."
CpuTicks ticks_of_machine();                    // of all cores
std::map<int, CpuTicks> ticks_by_core();
// Share of the time between two readings in which a core was busy or stolen, 0 to 1.
double busy_share(const CpuTicks& begin, const CpuTicks& end);

struct MachineLoad {
  std::vector<double> cores;    // busy_share of each core
  double memory_bytes = 0;      // in use by all processes
  double disk_bytes_per_s = 0;  // read from all disks; files in the page cache do not count
  double cpu() const;           // mean over the cores
};

class LoadMeter {
 public:
  LoadMeter();
  // Returns the load since the last result, or nothing if that is less than a second ago.
  std::optional<MachineLoad> next();

 private:
  struct Reading {
    int64_t at_ns = 0;
    std::map<int, CpuTicks> cores = {};
    double disk_bytes = 0;
  };
  static Reading read();

  Reading last_;
};

}  // namespace bellows
