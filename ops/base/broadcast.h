// NumPy's broadcasting, as views.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// The shape of a NumPy broadcast: aligned at the last axis, where sizes of 1 stretch. Refuses
// shapes that do not fit, naming the op.
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

// A view of that shape: stride 0 along every axis that t lacks or has with size 1.
inline Tensor broadcast_to(const Tensor& t, const Shape& shape) {
  if (t.shape() == shape) return t;
  Strides strides = shape;
  for (int k = 1; k <= shape.rank(); ++k)
    strides[-k] = k <= t.rank() && t.dim(-k) == shape[-k] ? t.strides()[-k] : 0;
  return t.view(shape, strides, t.offset());
}

}  // namespace bellows
