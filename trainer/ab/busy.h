// Recognizes other work on the machine while arms are measured.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace bellows {

// Shares of the time of a measurement, 0 to 1.
struct BusyMachine {
  double others = 0;  // of all cores: CPU time of other processes
  double stolen = 0;  // of all cores: time that the hypervisor gave to other machines
  double waited = 0;  // of all threads of the arms' pools: ready, but without a core

  // Names the shares that make the clock doubtful: "other processes used 48 % of the cores". Empty
  // on a quiet machine.
  std::vector<std::string> reasons() const;
};

// CPU time of all cores, in ticks since boot.
struct MachineTicks {
  int64_t all = 0, used = 0, stolen = 0;
};
MachineTicks parse_ticks(const std::string& stat);  // the content of /proc/stat

// Returns `others` and `stolen` between two readings, in which this process and its children used
// `own` ticks.
BusyMachine shares(const MachineTicks& begin, const MachineTicks& end, double own);

class MachineClock {
 public:
  // Returns `others` and `stolen` since construction. Children count once they have ended.
  BusyMachine since_begin() const { return shares(begin_, now(), own_ticks() - own_begin_); }

 private:
  static MachineTicks now();
  static double own_ticks();

  MachineTicks begin_ = now();
  double own_begin_ = own_ticks();
};

}  // namespace bellows
