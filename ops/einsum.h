// Einstein's summation convention, as the loop nest that it stands for.
#pragma once
#include <string>
#include "core/tensor/foreach.h"

namespace bellows {

// einsum("ij,jk->ki", {a, b}): one term of letters a tensor, a letter an axis. Shared letters
// multiply, letters that the output drops are summed, the order of the output is free; a letter
// twice in one term is its diagonal. f32 or f64, on a device also bf16 and f16. Refuses an output
// letter that no input has, by name.
Tensor einsum(const std::string& expression, TensorSpan inputs);
inline Tensor einsum(const std::string& expression, std::initializer_list<Tensor> inputs) {
  return einsum(expression, TensorSpan(inputs.begin(), inputs.size()));
}

// The loop nest as text, a line a loop; refuses what einsum() refuses.
std::string explain_einsum(const std::string& expression);

namespace kernels {
// y[out] = sum over all other letters of the product of the inputs, each at its letters. A letter
// twice in `out` writes the diagonal, the rest of y is 0.
inline constinit Kernel<Tensor(TensorSpan inputs, const std::vector<std::string>& terms,
                               const std::string& out, const Shape& shape)>
    einsum{"einsum"};
}  // namespace kernels
}  // namespace bellows
