// Loads the initial weights of a new run.
#pragma once
#include <string>
#include <vector>

namespace bellows {

class Session;

// Loads plan.train.weights: a safetensors file or a run folder, with PyTorch's names, written by
// any program. The prefix "module." of DistributedDataParallel is removed, and floating-point
// dtypes are converted. No-op if the plan names none. What was and was not taken goes to `notes`.
// Throws Error: exit 4 for a file that does not fit, before anything is changed; 5 for values that
// are not finite with ckpt.require_finite.
void load_weights(Session& session, std::vector<std::string>& notes);

}  // namespace bellows
