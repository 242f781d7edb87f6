// Einstein summation: a matrix product where the letters allow it, else the loop nest it stands
// for.
#pragma once
#include <string>
#include "core/tensor/foreach.h"

namespace bellows {

// einsum("ij,jk->ki", {a, b}): each term has one letter per axis of its tensor. Shared letters are
// multiplied, letters missing in the output are summed, and the output's letters may have any
// order. A letter that occurs twice in one term takes its diagonal. All inputs have one float
// dtype; y is row-major. Two terms without repeated letters run as kernels::matmul, after a sum
// over the letters that only one of them has; 16-bit types round that sum. All else runs as the
// loop nest, summed in double, on a device with at most 7 inputs. Throws (exit 2), naming the
// letter, if letters and shapes do not fit.
Tensor einsum(const std::string& expression, TensorSpan inputs);
inline Tensor einsum(const std::string& expression, std::initializer_list<Tensor> inputs) {
  return einsum(expression, TensorSpan(inputs.begin(), inputs.size()));
}

// Returns the loop nest as text, one line per loop. Throws (exit 2) on an invalid expression.
std::string explain_einsum(const std::string& expression);

namespace kernels {
// The loop nest, which defines einsum:
// y[out] = sum over all other letters of the product of the inputs. `terms` has the letters of each
// input. A letter twice in `out` writes the diagonal; the rest of y is 0.
inline constinit Kernel<Tensor(TensorSpan inputs, const std::vector<std::string>& terms,
                               const std::string& out, const Shape& shape)>
    einsum{"einsum"};
}  // namespace kernels
}  // namespace bellows
