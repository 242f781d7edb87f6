// The training step of a run, repeated on its first batch.
#pragma once
#include "core/base/trace.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

class RepeatedStep {
 public:
  explicit RepeatedStep(const Plan& plan);
  void operator()();    // runs one training step
  double loss() const;  // loss of the last step; waits for the device
  const Session& session() const { return session_; }
  Device device() const { return session_.device; }
  int64_t samples() const { return update_.samples(); }

 private:
  Update first_update();

  Session session_;
  TrainingStep train_on_;
  Update update_;
  int64_t steps_ = 0;
  Tensors losses_;  // one per micro-batch of the last step
};

struct StepTimes {
  std::vector<double> ms;      // ms of each step, on the device's clock
  std::vector<double> cpu_ms;  // CPU time of the process in each step
  double wall_ms = 0;          // time of all steps, from an idle device to an idle device
  trace::Counters
      moved;  // increase of each counter over all steps, without the final synchronization
};
// Runs steps until there are `steps` of them and `seconds` have passed. The host does not wait
// between them.
StepTimes time_steps(RepeatedStep& step, int64_t steps, double seconds);

}  // namespace bellows
