// Windows of updates: those in which kernels are tuned, and those which are profiled.
#pragma once
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/device/kernel_options.h"
#include "plan/run_options.h"

namespace bellows {

// The updates in which autotuning may try kernels. Before the window a heuristic chooses them;
// after it the fastest known ones are used, so no later step is slowed by a search.
class TuningWindow {
 public:
  TuningWindow(const TrainOptions& train, const KernelOptions& kernels);

  // Returns the options of the next update. Updates are counted per process: a resumed run tunes
  // again unless the result is on disk.
  KernelOptions now() const;
  void end_update() { ++updates_; }
  // Updates from the start of a run until kernels have been chosen and buffers made.
  int64_t warm_up() const { return on() ? last_ : 3; }
  // Returns one line when the window has ended, otherwise "".
  std::string report();
  // Returns autotune_searches and autotune_hit_rate since the last call, for metrics.jsonl. Empty
  // if nothing is tuned.
  Scalars take();

 private:
  bool on() const { return kernels_.autotune == Autotune::benchmark; }
  KernelOptions kernels_;
  int64_t first_, last_;
  int64_t updates_ = 0;  // updates of this process so far
  trace::Counters begin_ = trace::counters(), taken_ = begin_;
  bool reported_ = false;
};

// Returns how to record the window, printed at start-up; "" without a window.
std::string profiler_note(const ProfileOptions& options);

}  // namespace bellows
