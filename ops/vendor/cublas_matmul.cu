// cuBLASLt's products: f32 (with TF32 if asked), f64, bf16 and f16, which are summed in f32.
#include "ops/vendor/cublas.h"

namespace bellows {

static void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot& slot) {
  if (!cublas::multiply(y, a, b, into, cublas::Epilogue::none, Tensor(), slot))
    kernels::matmul.plain(y, a, b, into, slot);
}
// Its parts of a sum are added in a fixed order.
static const bool gpu =
    kernels::matmul.vendor_on(Device::cuda, multiply, {.thread_invariant = true});

}  // namespace bellows
