// Copies tensors of a file into a model's, by name; loads the initial weights of a new run.
#pragma once
#include <map>
#include <string>
#include <vector>
#include "core/tensor/tensor.h"

namespace bellows {

class Session;

using TensorsByName = std::map<std::string, Tensor>;
TensorsByName by_name(const NamedTensors& tensors);

// Copies the saved tensors into `wanted`, on any device. `saved` must have the same names, shapes
// and dtypes, and no others. Throws Error (exit 4) with all names that are missing, unexpected or
// different, before anything is changed. `what` and `advice` are the start and end of that message.
void copy_saved(const NamedTensors& wanted, const TensorsByName& saved,
                const std::string& what = "the checkpoint", const char* advice = "");

// Loads plan.train.weights: a safetensors file, an index of several (model.safetensors.index.json),
// a folder with one of these or a run folder, with PyTorch's names, written by any program. The
// prefixes "_orig_mod.", "module." and "model." of wrappers are removed, dtypes are converted, and
// a missing num_batches_tracked is 0. No-op if the plan names none. Lists in `notes` the tensors
// that were not in the file, those that were not used, and other classes. Throws Error: exit 4 for
// a file that does not fit, before anything is changed; 5 for values that are not finite with
// ckpt.require_finite.
void load_weights(Session& session, std::vector<std::string>& notes);

}  // namespace bellows
