// Ops without arithmetic: other shapes, orders and parts of the same elements.
//
// All but concat() return views of x if strides can express the result. Their gradients are views
// too, except for slice(), which puts dy into zeros, and expand(), which sums. Any dtype and
// strides. All throw (exit 2), naming the op, if axes or shapes do not fit.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Keeps the row-major order of elements, for any strides. One size may be -1, which is inferred.
// Copies only if no strides can view x in that shape.
Tensor reshape(const Tensor& x, const Shape& shape);
// Merges all axes after the first one: (N, C, H, W) to (N, C * H * W).
Tensor flatten(const Tensor& x);

// Axis i of y is axis order[i] of x. `order` has no negative axes.
Tensor permute(const Tensor& x, const Shape& order);

// Repeats x along axes of size 1 and along new leading axes, with stride 0.
Tensor expand(const Tensor& x, const Shape& shape);

// Returns elements [begin, end) of an axis.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end);
// Joins tensors along an axis. They agree in dtype and in all other axes.
Tensor concat(std::span<const Tensor> parts, int axis);

}  // namespace bellows
