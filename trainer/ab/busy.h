// Recognizes other work on the machine while arms are measured.
#pragma once
#include <string>
#include <vector>
#include "trainer/log/machine_load.h"

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

}  // namespace bellows
