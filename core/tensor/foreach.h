// In-place loops over lists of tensors: what optimizers, gradients and buffers need.
// Each raises the version of what it writes.
#pragma once
#include "core/tensor/step_state.h"

namespace bellows {

using TensorSpan = std::span<const Tensor>;

void fill(const Tensor& t, double value);
// sum += factor * t. The sum has t's strides, or is contiguous.
void add_into(const Tensor& sum, const Tensor& t, double factor = 1);
void scale_each(TensorSpan list, double factor);
// Of two lists that pair up in shape, dtype and order: t += share * (to - t), in one rounding, but
// not where state->found_inf; and the two change places.
void lerp_each(TensorSpan list, TensorSpan to, double share, const StepState* state = nullptr);
void swap_each(TensorSpan a, TensorSpan b);

// sqrt of the sum of all squares, as an f32 scalar on the tensors' device; sums in double over
// fixed chunks in list order.
Tensor norm_of(TensorSpan list);

namespace kernels {
inline constinit Kernel<void(const Tensor& t, double value)> fill{"fill"};
inline constinit Kernel<void(const Tensor& sum, const Tensor& t, double factor)> add_into{
    "add_into"};
inline constinit Kernel<void(TensorSpan list, double factor)> scale_each{"scale_each"};
inline constinit Kernel<void(TensorSpan list, TensorSpan to, double share, const StepState* state)>
    lerp_each{"lerp_each"};
inline constinit Kernel<void(TensorSpan a, TensorSpan b)> swap_each{"swap_each"};
inline constinit Kernel<void(TensorSpan list, const Tensor& norm)> norm_of{"norm_of"};
}  // namespace kernels
}  // namespace bellows
