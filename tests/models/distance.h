// Distance between an f32 tensor and PyTorch's.
#pragma once
#include <cmath>
#include "core/tensor/tensor.h"
#include "tests/worse.h"

namespace bellows {

// Returns the largest difference, relative to the largest magnitude of `expected`.
inline double distance(const Tensor& got, const Tensor& expected) {
  CHECK(got.numel() == expected.numel(), "got ", got.shape(), ", expected ", expected.shape());
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const double want = expected.ptr<float>()[i], is = got.ptr<float>()[i];
    largest = std::max(largest, std::abs(want));
    worst = worse(worst, std::abs(is - want));
  }
  return worst / largest;
}

}  // namespace bellows
