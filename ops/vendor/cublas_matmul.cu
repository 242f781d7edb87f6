// matmul with cuBLASLt: f32 (TF32 if enabled), f64, and bf16 and f16 with sums in f32.
#include "ops/vendor/cublas.h"

namespace bellows {

static void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot& slot) {
  if (!cublas::multiply(y, a, b, into, cublas::Epilogue::none, Tensor(), slot))
    kernels::matmul.plain(y, a, b, into, slot);
}
// cuBLASLt adds partial sums in a fixed order.
static const bool gpu = kernels::matmul.vendor_on(
    Device::cuda, multiply, {.thread_invariant = true, .version = cublas::loaded});

}  // namespace bellows
