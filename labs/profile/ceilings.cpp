#include <algorithm>
#include "core/device/timer.h"
#include "labs/bench/bench.h"
#include "labs/bench/product.h"
#include "labs/doctor/doctor.h"
#include "labs/profile/analysis.h"

namespace bellows {

double Ceilings::seconds(const Cost& work, DType dtype) const {
  const double flops = is_low(dtype) ? bf16 : f32;
  const double s = flops > 0 ? work.flop / flops : 0;
  return bytes_per_s > 0 ? std::max(s, work.bytes / bytes_per_s) : s;
}

// Returns the FLOP/s of a product of square matrices, the smallest that takes a millisecond.
static double product_rate(const Precision& precision) {
  constexpr int64_t kSmallest = 64, kLargest = 8192;
  for (int64_t n = kSmallest;; n *= 2) {
    const Product product(precision, {n, n}, {n, n}, Device::cuda);
    const auto call = [&] { product.run(); };
    const double s = time_interleaved({call}, Device::cuda, {.rounds = 3})[0].fastest();
    if (s > 1e-3 || n == kLargest) return product.flop() / s;
  }
}

Ceilings ceilings_of(Device device, bool tf32) {
  if (device == Device::cpu) return {fma_rate(DType::f32), fma_rate(DType::bf16), triad_rate()};
  constexpr int64_t kPastTheCache = 128 << 20;
  return {product_rate({.name = "f32", .dtype = DType::f32, .tf32 = tf32}),
          product_rate({.name = "bf16", .dtype = DType::bf16}), device_copy_rate(kPastTheCache)};
}

}  // namespace bellows
