// In-place operations on tensors and lists of tensors, for optimizers, gradients and buffers. Each
// raises the version of the tensors that it writes. Tensors must be dense (except `t` in add_into)
// and floating-point (except in fill and copy_each).
#pragma once
#include <numeric>
#include "core/tensor/kernel.h"

namespace bellows {

struct StepState;

using TensorSpan = std::span<const Tensor>;

void fill(const Tensor& t, double value);
// sum += factor * t, with equal shapes and dtypes. `sum` has t's strides or is contiguous.
void add_into(const Tensor& sum, const Tensor& t, double factor = 1);
// For two lists whose tensors pair up in shape, dtype and strides. lerp_each: t += share * (to -
// t), rounded once; does nothing if state->found_inf. swap_each: exchanges the values.
void lerp_each(TensorSpan list, TensorSpan to, double share, const StepState* state = nullptr);
void swap_each(TensorSpan a, TensorSpan b);
// For two such lists: copies the bits of `from` to `to`; does nothing if `only_if_skipped` is given
// and its update was not skipped (found_inf). On a GPU integers must be i64.
void copy_each(TensorSpan to, TensorSpan from, const StepState* only_if_skipped = nullptr);

// Returns the L2 norm of all elements: an f32 scalar on the tensors' device. Sums in double, in an
// order that depends only on the sizes. The list must not be empty.
Tensor norm_of(TensorSpan list);

// Returns the sum of the squares of n elements on the CPU. Eight lanes, because a single running
// sum would wait four cycles for each addition.
template <class T> double sum_of_squares(const T* t, int64_t n) {
  const auto square = [](T x) { return double(Acc<T>(x)) * double(Acc<T>(x)); };
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k) lanes[k] += square(t[i + k]);
  for (; i < n; ++i) lanes[i % 8] += square(t[i]);
  return std::accumulate(lanes, lanes + 8, 0.0);
}

namespace kernels {
inline constinit Kernel<void(const Tensor& t, double value)> fill{"fill"};
inline constinit Kernel<void(const Tensor& sum, const Tensor& t, double factor)> add_into{
    "add_into"};
inline constinit Kernel<void(TensorSpan list, TensorSpan to, double share, const StepState* state)>
    lerp_each{"lerp_each"};
inline constinit Kernel<void(TensorSpan a, TensorSpan b)> swap_each{"swap_each"};
inline constinit Kernel<void(TensorSpan to, TensorSpan from, const StepState* only_if_skipped)>
    copy_each{"copy_each"};
inline constinit Kernel<void(TensorSpan list, const Tensor& norm)> norm_of{"norm_of"};
}  // namespace kernels
}  // namespace bellows
