// Session: the objects that a Plan describes, built and connected, ready to train or to evaluate. A
// process may create several, one after the other. Allocator, thread pool and debug switches are
// process-wide and follow the newest.
#pragma once
#include "core/tensor/step_state.h"
#include "data/feeds/device_feed.h"
#include "dist/reducer.h"
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/store.h"
#include "models/rewrites/normed_conv.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plan/plan.h"
#include "trainer/session/data_card.h"
#include "trainer/session/losses.h"
#include "trainer/session/windows.h"

namespace bellows {

using Facts = std::vector<std::pair<std::string, std::string>>;  // names and values

class Session {
 public:
  // `trained`: description of the training set, which is then not opened. Throws Error: exit 2 for
  // a plan that is impossible, 3 for data that cannot be read, 7 if ranks are missing or differ.
  // Joins the ranks that a launcher started, unless `trained`: such a session is alone.
  explicit Session(const Plan& plan, const std::optional<TrainingSetInfo>& trained = {});
  Session(Session&&) = delete;

  // Returns zeros in the form of the feed's batches, samples of varying length at their longest.
  Batch zeros_like_batches(int64_t rows) const;
  // Runs a forward pass under kernels() and returns the mean loss, a scalar. `batch` is on the
  // device. Adds the terms of a sum to loss_terms.
  Tensor loss_of(const Batch& batch);
  // Kernel options of the next update and of evaluations: plan.kernels, but autotuning searches in
  // the tuning window only.
  KernelOptions kernels() const { return tuning.now(); }
  int64_t steps_per_epoch() const { return loader->batches(); }
  int64_t total_steps() const;  // updates of the whole plan
  int64_t joint_batch() const;  // samples of all ranks per update
  // True if rank 0 alone updates, and reads the batches of all ranks (dist/reducer.h).
  bool by_root() const { return ranks.world > 1 && !plan.dist.ddp; }
  // fingerprint() of the training set. The first call reads samples.
  const std::string& data_fingerprint() const;
  double last_rate() const;  // learning rate of the last applied update; waits for the device
  double next_rate() const;  // learning rate of the next update; waits for the device
  double next_rate(const Plan& other) const;  // of the next update under another plan's schedule

  // State of the learning rates after the evaluations so far. Setting it rewrites the rate tables
  // in place, also on the device, so a captured update reads the new rates.
  const RateState& rate_state() const { return rate_state_; }
  void set_rate_state(const RateState& state);
  // Lets the schedule react to an evaluation. Returns true if the rate of the next update changed.
  bool react(const MetricValue& now);
  // Metric that the schedule reacts to; "" if it reacts to none.
  std::string watched_metric() const;

  // The plan's optimizer options, with the norms of the model, and whether updates may be skipped.
  OptimizerOptions optimizer_options() const;

  // Returns once all ranks have called it with equal facts. Ranks that differ would otherwise train
  // different models without an error. Throws Error, exit 7, on every rank: the message names the
  // first rank that differs from rank 0, the first fact that does and both values, or the error
  // that a rank has reported. `topic` is unique in the run. Waits dist.timeout_s for a rank.
  void agree(const std::string& topic, const Facts& facts) const;
  // Makes the other ranks wait for work of rank 0 that may take longer than dist.timeout_s, such as
  // a checkpoint. Rank 0 calls it after that work. On the other ranks it returns after rank 0's
  // call, and waits as long as rank 0's store answers. `what` is unique in the run. Throws Error,
  // exit 7, naming `what`, if rank 0 has died, is stuck or has called abort().
  void wait_for_rank0(const std::string& what) const;
  // Sends the other ranks the reason why this one ends with an error.
  void abort(const std::string& why) const noexcept;
  // Group for tensors in host memory. It needs no wait for a device.
  ProcessGroup& host_group() const { return host_group_ ? *host_group_ : *group; }

  // Parts of the session, all of them set. Each may refer to those before it.
  const Plan plan;
  TuningWindow tuning;
  std::vector<std::string> notes;  // printed at start-up: device, data, model, fused layers
  Device device = Device::cpu;
  Ranks ranks;
  std::shared_ptr<Store> store;  // null in a world of one
  std::unique_ptr<ProcessGroup> group;
  DatasetPtr train_set, test_set;
  // Both loaders deliver only this rank's part.
  std::optional<Loader> loader;       // batches of the training set
  std::optional<Loader> test_loader;  // the test set, in order, not augmented
  std::shared_ptr<DeviceStepState> state;
  Shape input;                           // shape of a transformed sample; images: (C, H, W)
  double model_s = 0;                    // time to make the model, filters from images included
  std::vector<NormedConv> normed_convs;  // found in the model before rewrites
  ModulePtr model;
  NamedTensors parameters;
  Feed *feed = nullptr, *test_feed = nullptr;  // deliver batches on the device
  Tensor rates;                                // f64 on the host: learning rate by applied updates
  Names norms;                                 // paths of the batch norms
  std::optional<Optimizer> optimizer;
  std::optional<Ema> ema;
  std::optional<GradScaler> scaler;
  std::optional<Reducer> reducer;
  LossTerms loss_terms;
  // Lengths of the current batch, which layers read.
  std::shared_ptr<BatchLengths> lengths = std::make_shared<BatchLengths>();

 private:
  void build(const std::optional<TrainingSetInfo>& trained);
  void prepare_process();
  void meet_ranks();
  void leave_out_damaged(bool trained);
  Facts facts() const;
  ModulePtr make_model();
  DType wanted() const;
  Feed* feed_from(Loader& loader);
  Feed* training_feed();
  void check() const;
  void describe();

  std::unique_ptr<ProcessGroup> host_group_;  // null if `group` takes tensors in host memory
  std::vector<std::unique_ptr<Loader>> other_loaders_;  // on rank 0 in dp: loaders of other ranks
  std::vector<std::unique_ptr<Feed>> device_feeds_;
  RateState rate_state_;
  mutable std::string data_fingerprint_;  // "" until data_fingerprint() is called
  bool draws_ = false;                    // some layer's random values depend on state->forwards
};

}  // namespace bellows
