// The training step of a run, repeated on its first batch or on batch after batch.
#pragma once
#include <optional>
#include "core/base/trace.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

class RepeatedStep {
 public:
  explicit RepeatedStep(const Plan& plan);
  void operator()();    // runs one training step, on the same batch as the one before
  void next_batch();    // fetches the batch of the next steps, in the range "input" of a profile
  double loss() const;  // loss of the last step; waits for the device
  const Session& session() const { return session_; }
  Device device() const { return session_.device; }
  const Batch& batch() const { return update_->whole(); }
  int64_t samples() const { return update_->samples(); }

 private:
  void fetch_first();  // the first batch of epoch_
  void set(const Batch& batch) {
    update_.emplace(batch, micro_batches(session_.plan, batch.size()));
  }

  Session session_;
  TrainingStep train_on_;
  std::optional<Update> update_;  // holds no batch while another one is fetched
  int64_t steps_ = 0, epoch_ = 0;
  Tensors losses_;  // one per micro-batch of the last step
};

struct StepTimes {
  std::vector<double> ms;      // ms of each step, on the device's clock
  std::vector<double> cpu_ms;  // CPU time of the process in each step
  double wall_ms = 0;          // time of all steps, from an idle device to an idle device
  trace::Counters moved;       // by all steps, without the final synchronization
};
// Runs steps until there are `steps` of them and `seconds` have passed. The host does not wait
// between them.
StepTimes time_steps(RepeatedStep& step, int64_t steps, double seconds);

}  // namespace bellows
