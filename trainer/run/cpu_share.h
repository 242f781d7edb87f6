// Reports the CPU time that a run received when other work on the machine took part of it.
#pragma once
#include <string>
#include "core/device/adaptive_threads.h"

namespace bellows {

// In cores: CPU time of the process divided by wall time, and time in which threads of the pool
// were ready but had no core, added up and divided by wall time.
struct CpuUse {
  double used = 0, waited = 0;
};

// For example "cpu: got 35 % of 2 cores, load 5.1": cores in use, divided by the threads of the
// pool. Empty if threads waited for a core for less than a tenth of the time, or the process had
// all its cores.
std::string cpu_line(const CpuUse& use);

class CpuShare {
 public:
  CpuUse use() const;  // since construction
  // cpu_line() for the time since the last call. Empty for 30 s after a non-empty result.
  std::string news();
  const CpuUse& latest() const { return latest_; }  // between its last two calls

 private:
  struct Reading {
    int64_t at_ns;
    CpuTime cpu;
  };
  static Reading read();
  static CpuUse use(const Reading& from, const Reading& to);

  Reading begin_ = read(), last_ = begin_;
  int64_t quiet_until_ns_ = 0;
  CpuUse latest_;
};

}  // namespace bellows
