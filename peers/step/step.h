// Times the trainer's step on one batch of random values.
#pragma once
#include "trainer/run/summary.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

struct StepRequest {
  std::string model = "lenet", device = "cpu";
  int64_t batch = 64, image = 224;  // samples; side of the images (ignored by lenet and mlp)
  int64_t threads = 1;
  std::vector<std::string> words;  // key=value as for the trainer
};
// Returns the config for the request: the optimizer of peers/torch/torch_step.py, then the words.
// Turns off toggles that do not affect a step. Throws Exit::usage if a word sets such a toggle or
// option.
Config config_of(const StepRequest& request);

class NoiseStep {
 public:
  // `plan` must use the data set `noise` with a single batch, which stays on the device.
  explicit NoiseStep(const Plan& plan);
  void operator()();    // runs one training step
  double loss() const;  // loss of the last step; waits for the device
  Device device() const { return session_.device; }

 private:
  Session session_;
  TrainingStep train_on_;
  const Update update_;
  Tensors losses_;  // one per micro-batch of the last step
};

struct Times {
  std::vector<double> ms;      // of each step, on the device's clock
  std::vector<double> cpu_ms;  // of each step, CPU time of the process
  double wall_ms = 0;          // of all steps, from an idle device to an idle device
  Counters moved;  // increase of each counter over all steps, without the final synchronization
};
// Runs steps until there are `steps` of them and `seconds` have passed. The host does not wait
// between them.
Times time_steps(NoiseStep& step, int64_t steps, double seconds);

}  // namespace bellows
