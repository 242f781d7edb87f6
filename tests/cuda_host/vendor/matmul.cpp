// Replaces ops/vendor/cublas_matmul.cu.
#include "ops/matmul/matmul.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

static void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot&) {
  cuda_host::vendor_call("cublasLtMatmul", [y = View(y), a = View(a), b = View(b), into,
                                            tf32 = cuda_host::count_tf32(y)] {
    Slot slot;
    const Tensor product = y.load();
    kernels::matmul.plain(product, a.load_rounded(tf32), b.load_rounded(tf32), into, slot);
    y.store(product);
  });
}
static const bool vendor =
    kernels::matmul.vendor_on(Device::cuda, multiply, {.thread_invariant = true});
