// Helpers for tests of single kernels, whose results on the device are compared with those of the
// CPU, which computes the same in f64.
#pragma once
#include "core/base/philox.h"
#include "core/tensor/copy.h"
#include "tests/difference.h"

namespace cuda_host {

using namespace bellows;

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

// Returns standard normal values, rounded to `dtype`, as f64 on the CPU.
inline Tensor normal(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  const Tensor t(shape, DType::f64);
  const Philox rng({.seed = seed});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = rng.normal(i);
  return cast(cast(t, dtype), DType::f64);
}

inline Tensor on_device(const Tensor& t, DType dtype) {
  return t.defined() ? to(Device::cuda, cast(t, dtype)) : t;
}

}  // namespace cuda_host
