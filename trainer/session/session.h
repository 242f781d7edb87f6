// Session: what a Plan asks for, built and connected, ready to train or to evaluate. Many may live
// in a process, one after the other; allocator, thread pool and debug switches belong to the
// process and follow the newest.
#pragma once
#include "core/tensor/step_state.h"
#include "data/feeds/device_feed.h"
#include "dist/reducer.h"
#include "models/rewrites/rewrite.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plan/plan.h"
#include "trainer/session/data_card.h"

namespace bellows {

class Session {
 public:
  // Throws Error: exit 2 for a plan that cannot be, 3 for data that cannot be read.
  explicit Session(const Plan& plan, const std::optional<TrainedOn>& trained = {});
  Session(Session&&) = delete;

  // Zeros, as the feed's batches lie; x: (B, C, H, W) of a batch of training, or less.
  Batch zeros_like_batches(const Shape& x) const;
  // The mean loss of a batch that is on the device. The caller has plan.kernels in force.
  Tensor loss_of(const Batch& batch);
  int64_t steps_per_epoch() const { return loader.batches(); }
  int64_t total_steps() const;  // that the plan asks for
  double last_rate() const;     // of the last update that was applied; waits for the device
  double next_rate() const;     // of the next one; waits for the device

  // State of the learning rates, as evaluations have left it. Setting it rewrites the tables of
  // rates in place, on the device too, so a captured update reads the new ones.
  const RateState& rate_state() const { return rate_state_; }
  void set_rate_state(const RateState& state);
  // Lets the schedule react to an evaluation. True if the next update's rate changed.
  bool react(const MetricValue& metric);

  const Plan plan;
  std::vector<std::string> notes;  // for whoever starts: device, data, model, fused layers
  const Device device;
  const std::shared_ptr<const Dataset> train_set, test_set;
  Loader loader;       // of the training set
  Loader test_loader;  // of the test set: in order and complete, whatever training does
  const std::shared_ptr<DeviceStepState> state;
  const Shape input;   // of a sample as the model gets it in evaluation: (C, H, W)
  double model_s = 0;  // that it took to make the model, filters from images included
  std::vector<NormedConv> normed_convs;  // of the model, whatever was fused
  const ModulePtr model;
  const std::unique_ptr<Feed> device_feed, test_device_feed;  // null on the CPU
  Feed &feed, &test_feed;                                     // their batches, on the device
  const NamedTensors parameters;
  const Tensor rates;  // learning rate by applied updates, on the host
  Optimizer optimizer;
  Ema ema;
  const GradScaler scaler;
  const std::unique_ptr<ProcessGroup> group;
  Reducer reducer;

 private:
  ModulePtr make_model(bool trained);
  ModelInput wanted() const;

  RateState rate_state_;
};

}  // namespace bellows
