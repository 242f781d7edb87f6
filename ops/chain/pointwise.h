// A chain of elementwise functions as one op: pointwise(Chain("relu(x * scale + shift)",
// {"x", "scale", "shift"}), {x, scale, shift}).
#pragma once
#include <map>
#include "ops/base/op.h"
#include "ops/chain/program.h"

namespace bellows {

// A parsed chain: parse_pointwise() has the grammar and the errors. For the compute thread only.
class Chain {
 public:
  Chain(const std::string& text, std::vector<std::string> inputs);
  const std::string& text() const { return text_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  const StepProgram& program() const { return program_; }
  // Derivative with respect to the inputs marked in `wanted`; computed once for each such set.
  std::shared_ptr<const Derivative> derivative_for(const std::vector<bool>& wanted) const;

 private:
  std::string text_;
  std::vector<std::string> inputs_;
  StepProgram program_;
  mutable std::map<std::vector<bool>, std::shared_ptr<const Derivative>> derivatives_;
};

// Applies the chain. `inputs` has one tensor for each of the chain's inputs, in their order, all of
// one dtype. They broadcast to the shape of the result. Every step is computed for each element and
// rounded to the dtype. Under amp, 16-bit inputs are first cast to f32.
//
// composed: one op of ops/elementwise.h per step. fused: one pass over memory for forward and one
// for backward. Backward saves only inputs and recomputes the steps; the gradient of a broadcast
// input is written in full and then summed. Both implementations give the same bits. fused takes
// f32 and f64, on a device also bf16 and f16.
//
// Throws (exit 2) if the number of inputs, their shapes or their dtypes do not fit. Counts calls as
// fuse.pointwise, and bytes read and written as pointwise.bytes.
Tensor pointwise(const Chain& chain, std::span<const Tensor> inputs, Impl impl);

namespace kernels {
// Input i of the program is inputs[i]. Inputs have the shape of the outputs, with any strides. All
// outputs are dense and share one memory order. All tensors have one dtype.
inline constinit Kernel<void(std::span<const Tensor> inputs, const StepProgram& program,
                             std::span<const Tensor> outputs)>
    pointwise{"pointwise"};
}  // namespace kernels
}  // namespace bellows
