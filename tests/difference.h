// Compares a tensor with the expected one, in any dtype and memory format, on any device.
#pragma once
#include <algorithm>
#include <cmath>
#include "core/tensor/copy.h"

namespace bellows {

// Returns the largest difference, relative to the largest magnitude of `want`, at least `floor`.
// NaN if only one side is NaN somewhere, infinity if the shapes differ.
inline double difference(const Tensor& want, const Tensor& got, double floor = 1e-3) {
  if (want.shape() != got.shape()) return INFINITY;
  const auto values_of = [](const Tensor& t) {
    return contiguous(cast(to(Device::cpu, contiguous(t)), DType::f64));
  };
  const Tensor a = values_of(want), b = values_of(got);
  double worst = 0, largest = floor;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.ptr<double>()[i], y = b.ptr<double>()[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (std::isnan(x) || std::isnan(y)) return NAN;
    worst = std::max(worst, std::abs(x - y));
    largest = std::max(largest, std::abs(x));
  }
  return worst / largest;
}

}  // namespace bellows
