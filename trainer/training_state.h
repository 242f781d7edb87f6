// All that a run is between two updates, so that another process can go on with it bit for bit.
#pragma once
#include "core/safetensors.h"
#include "trainer/session.h"

namespace bellows {

// Where a run is. Nothing else counts: the learning rate, the order of the samples and every random
// number are functions of these, of the StepState and of the plan.
struct Position {
  int64_t epoch = 0, batch = 0;  // counted from 0; updates already made in this epoch
  int64_t step = 0;              // updates already made
  double elapsed_s = 0;          // of the run, its evaluations and checkpoints included
  // When the evaluation metric reached plan.target; negative: not yet.
  double target_s = -1;
  int64_t target_samples = 0, target_epochs = 0;
};

// Parameters and buffers under PyTorch's names.
NamedTensors model_tensors(const Session& session);
// These, and the optimizer's state as "optimizer/<its name>".
NamedTensors state_tensors(const Session& session);
// Of a checkpoint's tensors, those of the model.
NamedTensors model_part(const NamedTensors& saved);
// StepState, position, plan, data fingerprint, names of the classes, thread count, format version.
Metadata state_metadata(const Session& session, const Position& position);
inline const std::string kClassNames = "classes";  // a JSON list, empty where they have none

// Puts a checkpoint's numbers in place. Throws Error: exit 4 with all names that are missing,
// unexpected or of another shape, before anything is changed; exit 3 for other data. Lines worth
// saying (another thread count) go to `notes`.
Position restore(Session& session, const SafeTensors& saved, std::vector<std::string>& notes);
// The model alone, for eval, predict and export. Exit 4 as above; 3 for data of other classes.
void restore_model(Session& session, const SafeTensors& saved);

// The plan that a checkpoint was written under. Exit 4 if it is of another format.
Plan plan_of(const SafeTensors& saved);
// Of the data's size, shape and a sample of its content.
std::string fingerprint(const Dataset& data);
// Of all parameters and buffers, bit for bit, in their order: 8 hexadecimal digits.
std::string model_hash(const Session& session);

}  // namespace bellows
