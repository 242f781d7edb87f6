// Einstein summation, computed by matrix products.
#pragma once
#include <string>
#include "core/tensor/foreach.h"

namespace bellows {

// einsum("ij,jk->ki", {a, b}): each term has one letter per axis of its tensor. Shared letters are
// multiplied, letters missing in the output are summed, and the output's letters may have any
// order. One or two inputs of one float dtype; y is row-major. Two terms run as kernels::matmul,
// after a sum over the letters that only one of them has, which 16-bit types round. Throws (exit
// 2), naming the letter, if letters and shapes do not fit, or if a term has a letter twice.
Tensor einsum(const std::string& expression, TensorSpan inputs);
inline Tensor einsum(const std::string& expression, std::initializer_list<Tensor> inputs) {
  return einsum(expression, TensorSpan(inputs.begin(), inputs.size()));
}

// Returns the loop nest as text, one line per loop. Throws (exit 2) on an invalid expression.
std::string explain_einsum(const std::string& expression);

}  // namespace bellows
