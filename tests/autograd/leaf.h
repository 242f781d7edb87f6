// Small leaf tensors for tests of autograd/, and the number of them that are alive.
#pragma once
#include "autograd/record.h"
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"

namespace bellows {

// Number of live one-element tensors. Each occupies one block of 64 bytes, the smallest size.
inline int64_t alive() { return allocator_stats(Device::cpu).allocated / 64; }

inline Tensor scalar(double value) { return full({1}, value, DType::f64); }
inline Tensor leaf(double value) { return require_grad(scalar(value)); }

}  // namespace bellows
