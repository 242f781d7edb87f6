// Replaces ops/vendor/cudnn_conv2d.cu. Images and results have the same memory formats as there.
#include "ops/conv/conv2d.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options, Slot&) {
  const Shape shape = conv2d_shape("conv2d", x.shape(), w.shape(), options);
  const Tensor y(shape, x.dtype(), Device::cuda, conv2d_format(x, w));
  cuda_host::vendor_call("cuDNN conv2d", [x = View(x), w = View(w), b = View(b), y = View(y),
                                          options, tf32 = cuda_host::count_tf32(x)] {
    Slot slot;
    y.store(
        kernels::conv2d.plain(x.load_rounded(tf32), w.load_rounded(tf32), b.load(), options, slot));
  });
  return y;
}

static Tensor backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot&) {
  const Tensor dx(x, dy.dtype(), Device::cuda, conv2d_format(dy, w));
  cuda_host::vendor_call("cuDNN conv2d_backward_x", [dy = View(dy), w = View(w), x, dx = View(dx),
                                                     options, tf32 = cuda_host::count_tf32(dy)] {
    Slot slot;
    dx.store(kernels::conv2d_backward_x.plain(dy.load_rounded(tf32), w.load_rounded(tf32), x,
                                              options, slot));
  });
  return dx;
}

static void backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot&) {
  cuda_host::vendor_call(
      "cuDNN conv2d_backward_w", [dy = View(dy), x = View(x), dw = View(dw), db = View(db), options,
                                  tf32 = cuda_host::count_tf32(x)] {
        Slot slot;
        const Tensor dw_ = dw.load(), db_ = db.load();
        kernels::conv2d_backward_w.plain(dy.load_rounded(tf32), x.load_rounded(tf32), dw_, db_,
                                         options, slot);
        dw.store(dw_);
        if (db_.defined()) db.store(db_);
      });
  dw.raise_version();
  if (db.defined()) db.raise_version();
}

static const bool vendor =
    kernels::conv2d.vendor_on(Device::cuda, forward, {.thread_invariant = true}) &&
    kernels::conv2d_backward_x.vendor_on(Device::cuda, backward_x, {.thread_invariant = true}) &&
    kernels::conv2d_backward_w.vendor_on(Device::cuda, backward_w, {.thread_invariant = true});
