// Small leaves, and how many tensors of their size are alive.
#pragma once
#include "autograd/record.h"
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"

namespace bellows {

// Tensors of one double fill one block of the allocator's smallest size.
inline int64_t alive() { return allocator_stats(Device::cpu).allocated / 64; }

inline Tensor scalar(double value) { return full({1}, value, DType::f64); }
inline Tensor leaf(double value) { return require_grad(scalar(value)); }

}  // namespace bellows
