// How busy the machine is: CPUs, memory and disks, as the kernel counts them in /proc.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace bellows {

struct MachineLoad {
  std::vector<double> cores;    // share of the time in which each CPU was busy, 0 to 1
  double memory_bytes = 0;      // in use by all processes
  double disk_bytes_per_s = 0;  // read from all disks; files in the page cache do not count
  double cpu() const;           // mean over the CPUs
};

class LoadMeter {
 public:
  LoadMeter();
  // Returns the load since the last result, or nothing if that is less than a second ago.
  std::optional<MachineLoad> next();

 private:
  struct Reading {
    int64_t at_ns = 0;
    std::vector<double> busy = {}, all = {};  // ticks of each CPU
    double disk_bytes = 0;
  };
  static Reading read();

  Reading last_;
};

}  // namespace bellows
