// The complete state of a run between two updates. Another process can resume from it bit for bit.
#pragma once
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include "core/base/words.h"
#include "core/tensor/safetensors.h"

namespace bellows {

class Dataset;
class Session;
struct Plan;
struct TrainingSetInfo;

// Sum and count of the finite losses; the log prints their mean and the number of the others.
struct LossSum {
  double sum = 0;
  int64_t count = 0, nonfinite = 0;

  void add(double loss) { std::isfinite(loss) ? (sum += loss, ++count) : ++nonfinite; }
  double mean() const { return count ? sum / double(count) : NAN; }
  bool empty() const { return count + nonfinite == 0; }
};

// The best evaluation so far, by the metric best_metric().
struct Best {
  int64_t step = -1, epoch = 0;  // step -1: none yet
  double value = 0;
  // For train.patience: the best of the regular evaluations, and the number of evaluations after
  // it. The evaluation at the end of a run is not regular, because a longer run might not make it.
  std::optional<double> regular = {};
  int64_t evaluations_since = 0;
};

// Progress of a run. The learning rate, the order of samples and all random numbers are functions
// of the Position, the StepState, the RateState and the plan.
struct Position {
  int64_t epoch = 0, batch = 0;  // epoch: from 0; batch: updates made in it
  int64_t step = 0;              // updates already made
  double elapsed_s = 0;          // seconds, with evaluations and checkpoints
  double load_s = 0, step_s = 0, eval_s = 0, save_s = 0;  // parts of elapsed_s
  // Time in seconds at which the metric reached plan.target; negative: not yet.
  double target_s = -1;
  int64_t target_samples = 0, target_epochs = 0;
  int64_t evaluated = -1;  // step of the last evaluation; -1: none
  Best best = {};
  LossSum window = {}, of_epoch = {};  // losses since the last log line, and of this epoch
};

// Parameters and buffers, with PyTorch's names.
NamedTensors model_tensors(const Session& session);
// model_tensors(), the optimizer's state as "optimizer/<name>" and averages as "ema/<name>".
NamedTensors state_tensors(const Session& session);
// Returns the model's tensors of a checkpoint: the averaged ones if there are any.
NamedTensors model_part(const NamedTensors& saved);
// StepState, RateState, position, plan, data fingerprint, data card (trainer/session/data_card.h),
// names of classes and of dropped biases, thread count, number of ranks, format version.
Metadata state_metadata(const Session& session, const Position& position);
inline const std::string kClassNames = "classes";  // a JSON list; empty if there are no names

// Returns the description of the training set.
TrainingSetInfo trained_on(const SafeTensors& saved);
// Compares the classes in a file's metadata with `here`. Returns "" if they are equal, else both
// lists; long ones begin at the first difference.
std::string other_classes(const Names& here, const Metadata& metadata);
// Returns the names of biases that drop_conv_bias removed.
Names dropped_biases(const SafeTensors& saved);

// ---- tensors of a file, by name

using TensorsByName = std::map<std::string, Tensor>;
TensorsByName by_name(const NamedTensors& tensors);

// Copies the saved tensors into `wanted`, on any device. `saved` must have the same names, shapes
// and dtypes, and no others. Throws Error (exit 4) with all names that are missing, unexpected or
// different, before anything is changed. `what` and `advice` are the start and end of that message.
// Unless `strict`, copies the tensors that fit (at least one must), and returns a list of the
// tensors that keep their initial values and of saved tensors that are not used.
std::string copy_saved(const NamedTensors& wanted, const TensorsByName& saved,
                       const std::string& what = "the checkpoint", const char* advice = "",
                       bool strict = true);

// Loads plan.train.weights: a safetensors file, an index of several (model.safetensors.index.json),
// a folder with one of these or a run folder, with PyTorch's names, written by any program. The
// prefixes "_orig_mod.", "module." and "model." of wrappers are removed, dtypes are converted, and
// a missing num_batches_tracked is 0. No-op if the plan names none. Lists in `notes` the tensors
// that were not in the file, those that were not used, and other classes. Throws Error: exit 4 for
// a file that does not fit, before anything is changed; 5 for values that are not finite with
// ckpt.require_finite.
void load_weights(Session& session, std::vector<std::string>& notes);

// ---- resume

// Mode of a resume: as the same run, or as a branch with its own folder, which may train on other
// data.
enum class Resume { same_run, branch };
// Copies a checkpoint's values into the session and returns the position. Throws Error: exit 4 with
// all names that are missing, unexpected or of another shape, before any tensor is changed; exit 3
// for other data, except in a branch. Notes to print (such as another thread count) go to `notes`.
Position restore(Session& session, const SafeTensors& saved, std::vector<std::string>& notes,
                 Resume resume = Resume::same_run);
// Restores only the model, for eval, predict and export. Throws Error: exit 4 as restore() does;
// exit 3 if the test set has other classes.
void restore_model(Session& session, const SafeTensors& saved);

// Returns a Session with the plan that the model was trained under, changed by `overrides`
// (key=value). Prints warnings (such as a damaged checkpoint) on stderr. Does not open the training
// data, because the checkpoint describes it, and opens a test set only with `tests`. `data`:
// another data set, as in data=NAME, or a folder for a data set of the run's type; "": the run's
// own. The statistics of normalize stay those of the training set. Throws Error.
std::unique_ptr<Session> load_trained(const std::string& file_or_run, bool tests,
                                      const Names& overrides = {}, const std::string& data = "");

// Returns the plan that a checkpoint was written under. Throws Error (exit 4) for other formats.
Plan read_plan(const SafeTensors& saved);
// Returns the number of ranks that wrote a checkpoint. Throws Error (exit 4).
int64_t read_ranks(const SafeTensors& saved);
// Returns a CRC-32C of all parameters and buffers in order, as 8 hexadecimal digits.
std::string model_hash(const Session& session);
// Returns the same hash of the complete state, including the optimizer and the StepState.
std::string state_hash(const Session& session);

}  // namespace bellows
