// Products of optimizers with cuBLASLt, in every dtype of matmul.
#include "core/tensor/scaled_product.h"
#include "ops/vendor/cublas.h"

namespace bellows {

static void scaled_product(const Tensor& y, const Tensor& base, const Tensor& a, const Tensor& b,
                           const Scales& scales, Slot& slot) {
  const auto plain = [&] {
    const Tensor product = empty_like(y);
    kernels::scaled_product.plain(product, base, a, b, scales, slot);
    return PlannedCall::Tensors{product};
  };
  if (cublas::multiply(y, base, a, b, scales, slot, plain))
    y.raise_version();
  else
    kernels::scaled_product.plain(y, base, a, b, scales, slot);
}
static const bool gpu = kernels::scaled_product.vendor_on(
    Device::cuda, scaled_product, {.thread_invariant = true, .version = cublas::loaded});

}  // namespace bellows
