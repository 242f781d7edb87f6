// Operands of one dtype: kernels read the bytes of all of them as those of the first.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// After amp::low, which casts f32 alone. b may be undefined.
inline void check_one_dtype(const char* op, const Tensor& x, const Tensor& w, const Tensor& b) {
  CHECK(w.dtype() == x.dtype(), op, ": x is ", x.dtype(), " and w is ", w.dtype());
  CHECK(!b.defined() || b.dtype() == x.dtype(), op, ": x is ", x.dtype(), " and b is ", b.dtype());
}

}  // namespace bellows
