// Gauges: values of a log window besides its loss and its costs, for metrics.jsonl and TensorBoard.
#pragma once
#include "core/tensor/step_state.h"
#include "trainer/log/log.h"
#include "trainer/log/machine_load.h"
#include "trainer/log/meter.h"
#include "trainer/log/nvml.h"

namespace bellows {

class Consensus;
class Session;

class Gauges {
 public:
  Gauges(Session& session, Consensus& consensus, const Meter& meter, const Position& at);

  void begin_update(const BatchCounts& counts);
  void end_epoch();
  // Returns the values since the last call. `state`: the step state at the end of the window. All
  // ranks call it together.
  std::pair<Scalars, ScalarLists> take(const LogPoint& window, const StepState& state);
  // Returns "cpu: got 35 % of 2 cores" if the process got too few, else "". Call it before take().
  std::string news() { return cpu_.news(); }
  CpuUse cpu() const { return cpu_.use(); }  // since construction

 private:
  Scalars loss_terms();
  ScalarLists by_rank(double reader_cost);
  Scalars of_gpu() const;
  double training_s() const;

  Session& session_;
  Consensus& consensus_;
  const Meter& meter_;
  const Position& at_;
  CpuShare cpu_;
  LoadMeter load_;                 // of the machine, once a second
  std::optional<GpuMonitor> gpu_;  // load of the GPU, if training is on one
  PaddingGauge padding_;
  trace::Counter& waited_ = trace::counter("dist.exposed_wait_ns");
  int64_t waited_before_ = waited_.value(), step_before_;  // at the last by_rank()
  // Set between an epoch's end and the next one's first batch: training_s() at the end. The gap is
  // the time between the two; the first log line of an epoch reports it.
  std::optional<double> epoch_end_s_, epoch_gap_s_;
};

}  // namespace bellows
