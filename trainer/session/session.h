// Session: the objects that a Plan describes, built and connected, ready to train or to evaluate. A
// process may create several, one after the other. Allocator, thread pool and debug switches are
// process-wide and follow the newest.
#pragma once
#include "core/tensor/step_state.h"
#include "data/feeds/device_feed.h"
#include "dist/reducer.h"
#include "models/rewrites/normed_conv.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plan/plan.h"
#include "trainer/session/data_card.h"
#include "trainer/session/losses.h"
#include "trainer/session/tuning_window.h"

namespace bellows {

class Session {
 public:
  // `trained`: description of the training set, which is then not opened. Throws Error: exit 2 for
  // a plan that is impossible, 3 for data that cannot be read.
  explicit Session(const Plan& plan, const std::optional<TrainingSetInfo>& trained = {});
  Session(Session&&) = delete;

  // Returns zeros in the layout and dtype of the feed's batches. x: (B, C, H, W), B up to the batch
  // size.
  Batch zeros_like_batches(const Shape& x) const;
  // Runs a forward pass under kernels() and returns the mean loss, a scalar. `batch` is on the
  // device. Adds the terms of a sum to loss_terms.
  Tensor loss_of(const Batch& batch);
  // Kernel options of the next update and of evaluations: plan.kernels, but autotuning searches in
  // the tuning window only.
  KernelOptions kernels() const { return tuning.now(); }
  int64_t steps_per_epoch() const { return loader->batches(); }
  int64_t total_steps() const;  // updates of the whole plan
  double last_rate() const;     // of the last applied update; waits for the device
  double next_rate() const;     // of the next update; waits for the device

  // State of the learning rates after the evaluations so far. Setting it rewrites the rate tables
  // in place, also on the device, so a captured update reads the new rates.
  const RateState& rate_state() const { return rate_state_; }
  void set_rate_state(const RateState& state);
  // Lets the schedule react to an evaluation. Returns true if the rate of the next update changed.
  bool react(const MetricValue& now);
  // Metric that the schedule reacts to; "" if it reacts to none.
  std::string watched_metric() const;

  // The parts, none of them empty. Each may refer to those before it.
  const Plan plan;
  TuningWindow tuning;
  std::vector<std::string> notes;  // printed at start-up: device, data, model, fused layers
  Device device = Device::cpu;
  std::shared_ptr<const Dataset> train_set, test_set;
  std::optional<Loader> loader;       // of the training set
  std::optional<Loader> test_loader;  // of the test set: in order, complete, not augmented
  std::shared_ptr<DeviceStepState> state;
  Shape input;                           // of a sample in evaluation: (C, H, W)
  double model_s = 0;                    // time to make the model, filters from images included
  std::vector<NormedConv> normed_convs;  // of the model before rewrites
  ModulePtr model;
  NamedTensors parameters;
  Feed *feed = nullptr, *test_feed = nullptr;  // deliver batches on the device
  Tensor rates;                                // f64 on the host: learning rate by applied updates
  std::optional<Optimizer> optimizer;
  std::optional<Ema> ema;
  std::optional<GradScaler> scaler;
  std::unique_ptr<ProcessGroup> group;
  std::optional<Reducer> reducer;
  LossTerms loss_terms;

 private:
  ModulePtr make_model(bool trained);
  ModelInput wanted() const;
  Feed* feed_from(Loader& loader);
  void check(bool tests) const;
  void describe();

  std::vector<std::unique_ptr<Feed>> device_feeds_;
  RateState rate_state_;
};

}  // namespace bellows
