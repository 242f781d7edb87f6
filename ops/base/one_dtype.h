// Check that all operands of an op have one dtype: kernels read them all as the first one's type.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Throws (exit 2) unless w and b have the dtype of x. b may be undefined. Call it after amp::low,
// which casts only f32 tensors.
inline void check_one_dtype(const char* op, const Tensor& x, const Tensor& w, const Tensor& b) {
  CHECK(w.dtype() == x.dtype(), op, ": x is ", x.dtype(), " and w is ", w.dtype());
  CHECK(!b.defined() || b.dtype() == x.dtype(), op, ": x is ", x.dtype(), " and b is ", b.dtype());
}

}  // namespace bellows
