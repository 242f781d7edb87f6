// Losses: an open collection. Each is a file that registers a function of the model's output:
//   static const AddEntry<LossFunction> mse_entry("mse", "mean of squared errors", mse);
#pragma once
#include "autograd/amp.h"
#include "core/config/choice.h"
#include "core/tensor/tensor.h"

namespace bellows {

// Input of a loss, which is a mean over units: class targets that count, or samples whose target is
// values.
struct LossInput {
  Tensor output;  // (..., C) class scores, or (N, K) values; floating-point, with history
  // (...), i64: class indices, or kLeftOut. Or values, floating-point: (N, K), or (N) if K is 1.
  Tensor target;
  // f32 scalar on the device of the output, above 0. Defined: the loss is the sum over the units
  // divided by it, so the losses of the parts of a batch add up. Undefined: the mean over the
  // units.
  Tensor divisor = {};
  bool fused = false;
  bool training = true;           // false: evaluation, which never smooths labels
  NamedTensors* terms = nullptr;  // receives the terms of a sum, without history, for the log
};
// Returns the loss, a scalar with history. Throws Exit::usage if output and target do not fit each
// other or the loss, and Exit::data if a label is out of range. A GPU does not check labels; there,
// cross_entropy becomes NaN.
using LossFunction = Tensor(const LossInput& in);

struct LossOptions {
  Choice<LossFunction> loss{"cross_entropy"};
  bool fused = false;
};
void visit(Visitor& v, LossOptions& o);

// Computes the loss that `options` select, with in.fused set from them.
Tensor criterion(LossInput in, const LossOptions& options);
inline Tensor criterion(const Tensor& output, const Tensor& target, const LossOptions& options) {
  return criterion({.output = output, .target = target}, options);
}

struct LossTerm {
  std::string name;  // "loss.l1", as in the log; a second l1 is "loss.l1_2"
  Choice<LossFunction> loss;
  double weight = 1;
};
// Returns the terms of a sum in their order, and any other loss as its only term.
std::vector<LossTerm> terms_of(const LossOptions& options);

// ---- for losses and metrics; `loss` is the name that begins the messages of errors

// Throws Exit::usage if the target is values, or classes.
void need_classes(const char* loss, const LossInput& in);
void need_values(const char* loss, const LossInput& in);

// The error of each output.
struct Errors {
  Tensor each;    // (N, K), in f32 under amp: output - one_hot(target), or output - target
  Tensor counts;  // (N, 1): 1, or 0 where a class target is left out; undefined: all count
};
// Flattens (..., C) to (N, C). Throws as a LossFunction does.
Errors errors_of(const char* loss, const LossInput& in);

}  // namespace bellows
