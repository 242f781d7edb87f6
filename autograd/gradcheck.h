// Gradient check: compares backward with central differences. In f64 the two agree to nine digits,
// so a wrong term shows.
#pragma once
#include <functional>
#include <string>
#include "autograd/record.h"

namespace bellows {

using TensorFn = std::function<Tensor(const std::vector<Tensor>& inputs)>;

// Scalar loss sum_i y_i * cos(i + 1), i in row-major order. Every element has a weight of its own,
// so no two errors cancel. y: f32 or f64, any strides; the gradient has the same strides.
Tensor probe_loss(const Tensor& y);

// Returns "" if backward computes d probe_loss(fn(inputs)) / d inputs, else one line with the name,
// the input, the element and both values. inputs: f64 leaves on the CPU, any strides. They are
// perturbed in place and restored, and hold the gradients of one backward afterwards.
std::string gradcheck(const std::string& name, const TensorFn& fn,
                      const std::vector<Tensor>& inputs, double tolerance = 1e-7);

}  // namespace bellows
