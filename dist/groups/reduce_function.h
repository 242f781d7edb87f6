// Elementwise arithmetic of Gloo's collectives.
#pragma once
#include <cstddef>
#include "core/base/dtype.h"

namespace bellows {

// For n elements of `dtype` (f32, f64, bf16, f16 or i64), computed in f32 if they have 16 bits, and
// rounded once. Uses no OpenMP, so any thread may call these.
//
// to[i] = (a[i] + b[i]) * factor; `to` may be a or b. For i64 the factor is 1.
void add_scaled(DType dtype, void* to, const void* a, const void* b, size_t n, double factor);
// to[i] = to[i] / divisor; not for i64.
void divide(DType dtype, void* to, size_t n, double divisor);

}  // namespace bellows
