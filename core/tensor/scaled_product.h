// Matrix products of optimizers, which know no ops (docs/house.md).
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

struct Scales {
  double product = 1, base = 0;
  bool operator==(const Scales&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Scales& s) {
  return out << s.product << '*' << s.base;
}

namespace kernels {
// y = scales.base * base + scales.product * a b, for a batch of products: y and base (B, M, N), a
// (B, M, K), b (B, K, N). All of one dtype, f32, f64, bf16 or f16; sums of 16-bit values are in
// f32. Each is row-major and contiguous; b may be the transpose of such a tensor. `base` may be
// undefined. y must not alias the others.
inline constinit Kernel<void(const Tensor& y, const Tensor& base, const Tensor& a, const Tensor& b,
                             const Scales& scales, Slot& slot)>
    scaled_product{"scaled_product"};
}  // namespace kernels
}  // namespace bellows
