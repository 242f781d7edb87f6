// Page-locked host memory, which a device copies from and to while the host continues.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Returns a dense tensor on Device::cpu, not initialized. Allocation is slow, so reuse it. Before
// the last handle is dropped, its owner must make sure that no copy still uses the memory. Throws
// Error, exit 6, if out of memory. Adds its size to alloc.pinned_bytes.
Tensor pinned(const Shape& shape, DType dtype);
bool is_pinned(const Tensor& t);

}  // namespace bellows
