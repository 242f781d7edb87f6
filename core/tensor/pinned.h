// Page-locked host memory: a device copies from and to it by itself, while the host goes on.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Dense, on Device::cpu, not initialised. Slow to make: to be kept and used again. Whoever drops
// the last handle sees to it that no copy is still at it. Out of memory: exit 6. Counted:
// alloc.pinned_bytes.
Tensor pinned(const Shape& shape, DType dtype);
bool is_pinned(const Tensor& t);

}  // namespace bellows
