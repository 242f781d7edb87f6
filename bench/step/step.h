// The trainer's step on one batch of random values, and how long it takes.
#pragma once
#include "trainer/run/summary.h"
#include "trainer/session/training_step.h"

namespace bellows {

struct StepRequest {
  std::string model = "lenet", device = "cpu";
  int64_t batch = 64, image = 224;  // samples; side, where the model is not for digits
  int threads = 1;
  std::vector<std::string> words;  // key=value, as the trainer has them
};
// The peer's optimizer, then what the words say. Throws Error (exit 2) for one that has no part in
// a step; toggles that have none are off.
Config config_of(const StepRequest& request);

class NoiseStep {
 public:
  // From the data set `noise`, whose only batch stays where the step reads it.
  explicit NoiseStep(const Plan& plan);
  void operator()();
  Tensor forward();     // the loss, with its graph
  double loss() const;  // of the last step; waits for the device
  Device device() const { return session_.device; }

 private:
  Session session_;
  TrainingStep train_on_;
  Batch batch_;
  Tensors losses_;  // of the last step's micro-batches
};

struct Times {
  std::vector<double> ms;      // of each step, on the device's clock
  std::vector<double> cpu_ms;  // of the process
  double wall_ms = 0;          // of all of them, from an idle device to an idle device
  Counts moved;  // counters, by all of them; the waits for an idle device are not theirs
};
// At least `steps` steps, and as many as fill `seconds`. The host does not wait between them.
Times time_steps(NoiseStep& step, int64_t steps, double seconds);

double quantile(std::vector<double>& values, double q);

}  // namespace bellows
