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

// Shares of the time of a measurement, 0 to 1.
struct BusyMachine {
  double others = 0;  // of all cores: CPU time of other processes
  double stolen = 0;  // of all cores: time that the hypervisor gave to other machines
  double waited = 0;  // of all threads of the arms' pools: ready, but without a core

  // Names the shares that make the clock doubtful: "other processes used 48 % of the cores". Empty
  // on a quiet machine.
  std::vector<std::string> reasons() const;
};

// Returns `others` and `stolen` between two readings, in which this process and its children used
// `own` ticks.
BusyMachine shares(const CpuTicks& begin, const CpuTicks& end, double own);

class MachineClock {
 public:
  // Returns `others` and `stolen` since construction. Children count once they have ended.
  BusyMachine since_begin() const {
    return shares(begin_, ticks_of_machine(), own_ticks() - own_begin_);
  }

 private:
  static double own_ticks();

  CpuTicks begin_ = ticks_of_machine();
  double own_begin_ = own_ticks();
};

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
