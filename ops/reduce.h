// Sums and means over axes. They accumulate in double, in an order that depends only on shape and
// strides, so the bits are the same for any number of threads.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

using Axes = Shape;  // a short list of axes; negative ones count from the last

struct ReduceOptions {
  Axes axes = {};        // empty: all axes
  bool keepdim = false;  // reduced axes stay, with size 1
};

// x: f64, f32, bf16 or f16, any strides. Results are row-major, in the dtype of x. All throw (exit
// 2) on an axis that x does not have.
Tensor sum(const Tensor& x, const ReduceOptions& options = {});
Tensor mean(const Tensor& x, const ReduceOptions& options = {});

namespace kernels {
// Undoes a broadcast: sums x over the axes along which `shape` broadcasts to the shape of x.
// Returns x itself if it has that shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

// kept: shape of x with 1 for every reduced axis; y has this shape. The sum is multiplied by
// `factor`.
inline constinit Kernel<Tensor(const Tensor& x, const Shape& kept, double factor)> sum{"sum"};
}  // namespace kernels
}  // namespace bellows
