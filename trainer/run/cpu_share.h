// Reports the CPU time that a run received when other work on the machine took part of it.
#pragma once
#include <string>
#include "core/device/adaptive_threads.h"

namespace bellows {

class CpuShare {
 public:
  // For example "cpu: got 35 % of 2 cores, load 5.1": CPU time since construction, divided by wall
  // time times threads of the pool. Empty if threads waited for a core for less than a tenth of the
  // time.
  std::string line() const;
  // The same for the time since the last call. Empty for 30 s after a non-empty result.
  std::string news();

 private:
  struct Reading {
    int64_t at_ns;
    CpuTime cpu;
  };
  static Reading read();
  static std::string text(const Reading& from, const Reading& to);

  Reading begin_ = read(), last_ = begin_;
  int64_t quiet_until_ns_ = 0;
};

}  // namespace bellows
