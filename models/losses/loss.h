// Losses: an open collection. Each is a file that registers a function of the model's output:
//   static const AddEntry<LossFunction> mse_entry("mse", "mean of squared errors", mse);
#pragma once
#include "autograd/amp.h"
#include "core/config/choice.h"
#include "core/tensor/tensor.h"

namespace bellows {

struct LossInput {
  Tensor output;  // (N, C), floating-point, with history
  Tensor labels;  // (N), i64: class indices
  bool fused = false;
  bool training = true;           // false: evaluation, which never smooths labels
  NamedTensors* terms = nullptr;  // receives the terms of a sum, without history, for the log
};
// Returns the mean loss over the samples, a scalar with history. Throws Exit::usage if the shapes
// do not fit, and Exit::data if a label is out of range. A GPU does not check labels; there,
// cross_entropy becomes NaN.
using LossFunction = Tensor(const LossInput& in);

struct LossOptions {
  Choice<LossFunction> loss{"cross_entropy"};
  bool fused = false;
};
void visit(Visitor& v, LossOptions& o);

// The loss of the options. `in.fused` is set from them.
Tensor criterion(LossInput in, const LossOptions& options);
inline Tensor criterion(const Tensor& output, const Tensor& labels, const LossOptions& options) {
  return criterion({.output = output, .labels = labels}, options);
}

struct LossTerm {
  std::string name;  // "loss.l1", as in the log; a second l1 is "loss.l1_2"
  Choice<LossFunction> loss;
  double weight = 1;
};
// Returns the terms of a sum in their order. Any other loss is its own only term.
std::vector<LossTerm> terms_of(const LossOptions& options);

// Returns output - one_hot(labels), (N, C), in f32 under amp. `loss` begins the messages of errors.
Tensor one_hot_error(const char* loss, const LossInput& in);

}  // namespace bellows
