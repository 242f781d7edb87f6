// A training step of a plan on one batch of random values, and how long it takes.
#pragma once
#include "autograd/backward.h"
#include "core/device.h"
#include "toggles/plan.h"

namespace bellows {

struct Pictures {
  Shape shape;  // (C, H, W)
  int64_t classes;
};

// What trainer/loop.cpp does with a batch, without a loader and a log.
class TrainingStep {
 public:
  TrainingStep(const Plan& plan, const Pictures& pictures, int64_t batch);
  void operator()();
  Tensor forward();                             // the loss, with its graph
  double loss() const { return loss_.item(); }  // of the last step; waits for the device
  Device device() const { return state_->device(); }

 private:
  const Plan plan_;
  std::shared_ptr<DeviceStepState> state_;
  ModulePtr model_;
  Optimizer optimizer_;
  const GradScaler scaler_;
  Tensor x_, labels_, loss_;
};

struct Times {
  std::vector<double> ms;      // of each step, on the device's clock
  std::vector<double> cpu_ms;  // of the process
  double wall_ms = 0;          // of all of them, from an idle device to an idle device
};
// At least `steps` steps, and as many as fill `seconds`. The host does not wait between them.
Times time_steps(TrainingStep& step, int64_t steps, double seconds);

double quantile(std::vector<double>& values, double q);

}  // namespace bellows
