// All that a run is between two updates, so that another process can go on with it bit for bit.
#pragma once
#include "core/tensor/safetensors.h"
#include "trainer/session/session.h"

namespace bellows {

// Sum and count of losses, of which the log prints the mean.
struct LossSum {
  double sum = 0;
  int64_t count = 0;

  void add(double loss) { sum += loss, ++count; }
  double mean() const { return sum / static_cast<double>(count); }
};

// The best evaluation so far, by the metric that best_metric() names.
struct Best {
  int64_t step = -1, epoch = 0;  // negative: none yet
  double value = 0;
  int64_t evaluations_since = 0;
};

// Where a run is. The learning rate, the order of the samples and every random number are functions
// of these, of the StepState, the RateState and the plan.
struct Position {
  int64_t epoch = 0, batch = 0;  // counted from 0; updates already made in this epoch
  int64_t step = 0;              // updates already made
  double elapsed_s = 0;          // of the run, its evaluations and checkpoints included
  // When the evaluation metric reached plan.target; negative: not yet.
  double target_s = -1;
  int64_t target_samples = 0, target_epochs = 0;
  int64_t evaluated = -1;  // step of the last evaluation; negative: none
  Best best = {};
  LossSum window = {}, of_epoch = {};  // training losses since the last log line, of this epoch
};

// Parameters and buffers under PyTorch's names.
NamedTensors model_tensors(const Session& session);
// These, and the optimizer's state as "optimizer/<its name>".
NamedTensors state_tensors(const Session& session);
// Of a checkpoint's tensors, those of the model.
NamedTensors model_part(const NamedTensors& saved);
// StepState, position, plan, data fingerprint, what predict and eval need to know of the data,
// names of the classes and of dropped biases, thread count, format version.
Metadata state_metadata(const Session& session, const Position& position);
inline const std::string kClassNames = "classes";  // a JSON list, empty where they have none

// What the checkpoint's model knows of its training set; none in those of earlier versions.
std::optional<TrainedOn> trained_on(const SafeTensors& saved);
// Biases that drop_conv_bias removed, by the names they had; none if the checkpoint does not say.
std::optional<Names> dropped_biases(const SafeTensors& saved);
// Name of a convolution's bias, whether it is there or not.
std::string bias_name(const NamedTensors& model, const NormedConv& conv);

// How a run goes on: as the same run, or as a branch, which has a folder of its own and may train
// on other data.
enum class Resume { same_run, branch };
// Puts a checkpoint's values in place. Throws Error: exit 4 with all names that are missing,
// unexpected or of another shape, before anything is changed; exit 3 for other data, unless in a
// branch. Lines worth printing (another thread count) go to `notes`.
Position restore(Session& session, const SafeTensors& saved, std::vector<std::string>& notes,
                 Resume resume = Resume::same_run);
// The model alone, for eval, predict and export. Exit 4 as above; 3 for data of other classes.
void restore_model(Session& session, const SafeTensors& saved);

// The plan that a checkpoint was written under. Exit 4 if it is of another format.
Plan plan_of(const SafeTensors& saved);
// Of the data's size, shape and a sample of its content.
std::string fingerprint(const Dataset& data);
// Of all parameters and buffers, bit for bit, in their order: 8 hexadecimal digits.
std::string model_hash(const Session& session);

}  // namespace bellows
