// The updates in which autotuning may try kernels out: before them a rule chooses, after them what
// won is used, so that no later step takes longer than it has to.
#pragma once
#include "core/base/json.h"
#include "core/device/kernel_options.h"
#include "plan/run_options.h"

namespace bellows {

class TuningWindow {
 public:
  TuningWindow(const TrainOptions& train, const KernelOptions& kernels);

  // In force in the next update. They are counted by process: a resumed run tunes anew what is not
  // on disk.
  KernelOptions now() const;
  void end_update() { ++updates_; }
  // From the next update on shapes are others: it begins again, as if that were the first one.
  void reopen();
  // One line once the window has ended.
  std::string report();
  // autotune_searches and autotune_hit_rate since the last call, for metrics.jsonl; none where
  // nothing is tuned.
  Scalars take();

 private:
  struct Counts {
    int64_t searches;
    int64_t repeated, kept;  // found already: by this run, for another layer; by an earlier one
    int64_t hits, misses;
    double hit_rate() const;
  };
  static Counts counts();
  Counts since(const Counts& before) const;

  bool on() const { return kernels_.autotune == Autotune::benchmark; }
  KernelOptions kernels_;
  int64_t first_, last_;
  int64_t updates_ = 0;  // since it was opened
  Counts begin_ = counts(), taken_ = begin_;
  bool reported_ = false;
};

}  // namespace bellows
