// Is a backward right? Its gradients against central differences, in f64, where the two agree to
// nine digits and a wrong term cannot hide.
#pragma once
#include <functional>
#include <string>
#include "autograd/record.h"

namespace bellows {

using TensorFn = std::function<Tensor(const std::vector<Tensor>& inputs)>;

// A scalar that every element of y reaches with a weight of its own, so no two errors cancel:
// sum of y_i * cos(i + 1) in row-major order. Its gradient has the strides of y.
Tensor probe_loss(const Tensor& y);

// "" if backward gives d probe_loss(fn(inputs)) / d inputs, else one line with the name, the input,
// its element and both values. The inputs are f64 leaves on the CPU with any strides; they are
// nudged in place and restored, and afterwards hold the gradients of one backward.
std::string gradcheck(const std::string& name, const TensorFn& fn,
                      const std::vector<Tensor>& inputs, double tolerance = 1e-7);

}  // namespace bellows
