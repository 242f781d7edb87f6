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
  // Runs a forward pass and returns the mean loss, a scalar. `batch` is on the device. The caller
  // has plan.kernels in force. Adds the terms of a sum to loss_terms.
  Tensor loss_of(const Batch& batch);
  int64_t steps_per_epoch() const { return loader.batches(); }
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

  const Plan plan;
  std::vector<std::string> notes;  // printed at start-up: device, data, model, fused layers
  const Device device;
  const std::shared_ptr<const Dataset> train_set, test_set;
  Loader loader;       // of the training set
  Loader test_loader;  // of the test set: in order, complete, not augmented
  const std::shared_ptr<DeviceStepState> state;
  const Shape input;                     // of a sample in evaluation: (C, H, W)
  double model_s = 0;                    // time to make the model, filters from images included
  std::vector<NormedConv> normed_convs;  // of the model before rewrites
  const ModulePtr model;
  const std::unique_ptr<Feed> device_feed, test_device_feed;  // null: the loader is the feed
  Feed &feed, &test_feed;                                     // deliver batches on the device
  const NamedTensors parameters;
  const Tensor rates;  // f64 on the host: learning rate by applied updates
  Optimizer optimizer;
  Ema ema;
  const GradScaler scaler;
  const std::unique_ptr<ProcessGroup> group;
  Reducer reducer;
  LossTerms loss_terms;

 private:
  ModulePtr make_model(bool trained);
  ModelInput wanted() const;

  RateState rate_state_;
};

}  // namespace bellows
