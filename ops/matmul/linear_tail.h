// Linear layers with relu between them, the end of a small classifier, as one op.
#pragma once
#include <span>
#include "core/tensor/kernel.h"
#include "core/tensor/slot.h"
#include "ops/base/op.h"

namespace bellows {

struct CrossEntropyOptions;

// w: (out, in). b: (out) or undefined. slot: as in linear(), may be null.
struct LinearTailLayer {
  Tensor w, b;
  Slot* slot = nullptr;
};

// Returns y = linear(... relu(linear(x, w1, b1)) ..., wn, bn), with a relu after each layer but the
// last. x: (..., in). y: (..., out of the last layer). dtypes and amp as in linear(). Throws (exit
// 2) if shapes or dtypes do not fit.
//
// fused, on a GPU: one launch forward and two backward if two or three layers have at most 1024
// features and 8 M multiplications, counted as fuse.linear_tail. Otherwise linear() and
// relu() run one by one.
Tensor linear_tail(const Tensor& x, std::span<const LinearTailLayer> layers, Impl impl);

// Returns cross_entropy(linear_tail(x, layers), target, options). x: (N, in).
//
// fused, under the same conditions: the loss is computed in the launches of linear_tail, and
// counted as fuse.linear_tail and fuse.loss. Otherwise the two ops run one by one.
Tensor linear_tail_loss(const Tensor& x, std::span<const LinearTailLayer> layers,
                        const Tensor& target, const CrossEntropyOptions& options, Impl impl);

namespace kernels {
inline constexpr int kMostTailLayers = 3;
inline constexpr int64_t kMostTailFeatures = 1024;

struct LinearTail {
  Tensors y;         // outputs (N, out) of all layers, those of relu where one follows
  Tensor lse, loss;  // as of cross_entropy, both f64 for f64, else f32
};
// x: (N, in), any strides. w: (out, in). b: (out) or undefined. target: (N), i64; undefined: there
// is no loss. On a GPU only.
inline constinit Kernel<LinearTail(const Tensor& x, const Tensors& w, const Tensors& b,
                                   const Tensor& target, double smoothing)>
    linear_tail{"linear_tail"};
// Writes dw, with any strides, and db, contiguous; any of them may be undefined. Returns dx,
// undefined unless needs_dx. With a loss, dy is its gradient, in its dtype, and y are all outputs.
// Without, dy is that of the last output, and y are the others. On a GPU only.
inline constinit Kernel<Tensor(
    const Tensor& dy, const Tensor& x, const Tensors& w, const Tensors& y, const Tensor& target,
    const Tensor& lse, double smoothing, const Tensors& dw, const Tensors& db, bool needs_dx)>
    linear_tail_backward{"linear_tail_backward"};
}  // namespace kernels
}  // namespace bellows
