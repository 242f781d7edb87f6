// Reductions over axes. Sums are taken in double, in an order that depends on the shape and strides
// only: the same bits for any number of threads.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

using Axes = Shape;  // a short list of axes; negative ones count from the last

struct ReduceOptions {
  Axes axes = {};        // none: all of them
  bool keepdim = false;  // reduced axes stay, with size 1
};

// f64, f32, bf16 or f16; any strides.
Tensor sum(const Tensor& x, const ReduceOptions& options = {});
Tensor mean(const Tensor& x, const ReduceOptions& options = {});
// NaN if there is one. The gradient goes to the first of equal elements in row-major order.
Tensor max(const Tensor& x, const ReduceOptions& options = {});
// i64: where along the axis the first of the largest elements is; the first NaN if there is one.
Tensor argmax(const Tensor& x, int axis);

// Undoes a broadcast: the sum over what was stretched, x of a shape that `shape` broadcasts to.
Tensor sum_to(const Tensor& x, const Shape& shape);

namespace kernels {
struct Max {
  Tensor y;
  Tensor index;  // i64: of each element of y in x, row-major
};
Tensor sum_to(const Tensor& x, const Shape& shape);  // x itself if it has that shape

// `kept`: the shape of x with 1 for every reduced axis; y has it. The sum is scaled by `factor`.
inline constinit Kernel<Tensor(const Tensor& x, const Shape& kept, double factor)> sum{"sum"};
inline constinit Kernel<Max(const Tensor& x, const Shape& kept)> max{"max"};
inline constinit Kernel<Tensor(const Tensor& x, int axis)> argmax{"argmax"};  // keeps the axis
// Zeros of that shape but for dx[index[i]] = dy[i].
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& index, const Shape& shape)>
    max_backward{"max_backward"};
}  // namespace kernels
}  // namespace bellows
