// Replaces ops/vendor/cublas_linear.cu.
#include "ops/matmul/linear.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation,
                      Slot&) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, x);
  cuda_host::vendor_call("cublasLtMatmul", [x = View(x), w = View(w), b = View(b), y = View(y),
                                            activation, tf32 = cuda_host::count_tf32(x)] {
    Slot slot;
    y.store(kernels::linear.plain(x.load_rounded(tf32), w.load_rounded(tf32), b.load(), activation,
                                  slot));
  });
  return y;
}

static void backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       Slot& slot) {
  if (!dw.defined() || !db.defined()) return kernels::linear_backward_w.plain(dy, x, dw, db, slot);
  cuda_host::vendor_call("cublasLtMatmul", [dy = View(dy), x = View(x), dw = View(dw),
                                            db = View(db), tf32 = cuda_host::count_tf32(x)] {
    Slot slot;
    const Tensor dw_ = dw.load(), db_ = db.load(), dy_ = dy.load_rounded(tf32);
    kernels::linear_backward_w.plain(dy_, x.load_rounded(tf32), dw_, db_, slot);
    dw.store(dw_);
    db.store(db_);
  });
  dw.raise_version();
  db.raise_version();
}

static const bool vendor =
    kernels::linear.vendor_on(Device::cuda, forward, {.thread_invariant = true}) &&
    kernels::linear_backward_w.vendor_on(Device::cuda, backward_w, {.thread_invariant = true});
