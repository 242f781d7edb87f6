// trainer plan --gpu CARD: the step of a config on a GPU, predicted from the FLOP and bytes that
// its ops state (ops/base/work.h) and from its kernel launches.
#pragma once
#include <string>
#include "plan/plan.h"

namespace bellows {

struct GpuPlanRequest {
  std::string gpu;     // a name in gpu_names()
  std::string sample;  // "3x224x224" if the data set is not here; "": opens it
  int64_t classes = 0;
  bool json = false;
};
std::vector<std::string> gpu_names();

// Records a step on two and one on four samples, here, and scales their work to the batch. Launches
// are counted where the device is CUDA's, and taken as one per op and pass elsewhere. Prints the
// prediction. Throws Error as Session does.
void predict_step(const Plan& plan, const GpuPlanRequest& request);

}  // namespace bellows
