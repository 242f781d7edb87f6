// An explicit chain of elementwise functions as one op: pointwise(Chain("relu(x * scale + shift)",
// {"x", "scale", "shift"}), {x, scale, shift}).
#pragma once
#include <map>
#include "ops/base/op.h"
#include "ops/chain/program.h"

namespace bellows {

// The chain, parsed once (ops/chain/expression.h has the grammar and the errors). For the compute
// thread.
class Chain {
 public:
  Chain(const std::string& text, std::vector<std::string> inputs);
  const std::string& text() const { return text_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  const StepProgram& program() const { return program_; }
  // Made once for each set of inputs that a gradient is wanted of.
  std::shared_ptr<const Derivative> derivative_for(const std::vector<bool>& wanted) const;

 private:
  std::string text_;
  std::vector<std::string> inputs_;
  StepProgram program_;
  mutable std::map<std::vector<bool>, std::shared_ptr<const Derivative>> derivatives_;
};

// One tensor for each of the chain's inputs, in their order, all of one dtype. They are broadcast
// to one shape, y's, and every step is computed for each of its elements and rounded to the dtype.
//
// composed: an op of ops/elementwise.h for each step. fused: one pass over memory, of f32 or f64,
// on a device also of bf16 and f16, and one for backward, which keeps inputs only and computes the
// steps again; the gradient of an input that was stretched is written whole and summed. Both have
// the same bits. Counted as fuse.pointwise, what the passes read and write as pointwise.bytes.
Tensor pointwise(const Chain& chain, std::span<const Tensor> inputs, Impl impl);

namespace kernels {
// Input i of the program is inputs[i]; they have the shape of the outputs, which are dense and of
// one memory order; so does each dtype.
inline constinit Kernel<void(std::span<const Tensor> inputs, const StepProgram& program,
                             std::span<const Tensor> outputs)>
    pointwise{"pointwise"};
}  // namespace kernels
}  // namespace bellows
