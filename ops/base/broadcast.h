// NumPy broadcasting as strided views.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Returns the NumPy broadcast of two shapes: aligned at the last axis, where axes of size 1
// stretch. Throws (exit 2) with the name of the op if the shapes do not fit.
inline Shape broadcast_shape(const Shape& a, const Shape& b, const char* op) {
  const Shape &longer = a.rank() < b.rank() ? b : a, &shorter = a.rank() < b.rank() ? a : b;
  Shape shape = longer;
  for (int k = 1; k <= shorter.rank(); ++k) {
    const int64_t l = longer[-k], s = shorter[-k];
    CHECK(l == s || l == 1 || s == 1, op, ": shapes ", a, " and ", b, " do not broadcast at axis ",
          -k);
    shape[-k] = l == 1 ? s : l;
  }
  return shape;
}

// Returns a view of `t` with that shape: stride 0 along every axis that `t` lacks or stretches. `t`
// must broadcast to `shape`; this is not checked.
inline Tensor broadcast_to(const Tensor& t, const Shape& shape) {
  if (t.shape() == shape) return t;
  Strides strides = shape;
  for (int k = 1; k <= shape.rank(); ++k)
    strides[-k] = k <= t.rank() && t.dim(-k) == shape[-k] ? t.strides()[-k] : 0;
  return t.view(shape, strides, t.offset());
}

}  // namespace bellows
