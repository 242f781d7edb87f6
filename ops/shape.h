// Ops that move no arithmetic: other shapes, orders and parts of the same elements.
//
// All but concat() return views of x where strides can express the result. So are gradients, but
// for those of slice(), zeros around dy, and of expand(), a sum.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Row-major order of elements, whatever the strides. One size may be -1: what is left for it.
// Copies only if no strides show x in that shape.
Tensor reshape(const Tensor& x, const Shape& shape);
// Axes `start` and after become one: (N, C, H, W) to (N, C * H * W) with start 1.
Tensor flatten(const Tensor& x, int start = 1);

// Axis i of y is axis order[i] of x.
Tensor permute(const Tensor& x, const Shape& order);
Tensor transpose(const Tensor& x, int a, int b);  // swaps two axes

// x repeated along axes of size 1, or new ones in front, by stride 0.
Tensor expand(const Tensor& x, const Shape& shape);

// Elements [begin, end) of an axis.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end);
// Tensors that agree in all axes but this, one after the other along it.
Tensor concat(std::span<const Tensor> parts, int axis);

}  // namespace bellows
