// Einstein summation, computed as the loop nest it stands for.
#pragma once
#include <string>
#include "core/tensor/foreach.h"

namespace bellows {

// einsum("ij,jk->ki", {a, b}): each term has one letter per axis of its tensor. Shared letters are
// multiplied, letters missing in the output are summed, and the output's letters may have any
// order. A letter that occurs twice in one term takes its diagonal. All inputs have one dtype, f32
// or f64, on a device also bf16 and f16, where at most 7 inputs are allowed. Throws (exit 2),
// naming the letter, if letters and shapes do not fit.
Tensor einsum(const std::string& expression, TensorSpan inputs);
inline Tensor einsum(const std::string& expression, std::initializer_list<Tensor> inputs) {
  return einsum(expression, TensorSpan(inputs.begin(), inputs.size()));
}

// Returns the loop nest as text, one line per loop. Throws (exit 2) on an invalid expression.
std::string explain_einsum(const std::string& expression);

namespace kernels {
// y[out] = sum over all other letters of the product of the inputs. `terms` has the letters of each
// input. A letter twice in `out` writes the diagonal; the rest of y is 0.
inline constinit Kernel<Tensor(TensorSpan inputs, const std::vector<std::string>& terms,
                               const std::string& out, const Shape& shape)>
    einsum{"einsum"};
}  // namespace kernels
}  // namespace bellows
