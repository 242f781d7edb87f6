// Replaces ops/vendor/cudnn_conv_norm.cu. Computes in f16 on the host, rounding after each step.
#include "ops/conv/conv_norm.h"
#include "core/tensor/copy.h"
#include "ops/vendor/cudnn_conv_norm.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

static Tensor low(const View& view) { return cast(view.load(), DType::f16); }
static void store(const View& view, const Tensor& t) { view.store(cast(t, DType::f32)); }

static kernels::ConvNorm forward(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                 const Tensor& bias, double eps, const Tensor& w,
                                 const Conv2dOptions& options, Slot& slot) {
  if (!cudnn::takes_conv_norm(x, w))
    return kernels::conv_norm.plain(x, statistics, weight, bias, eps, w, options, slot);
  const Tensor y(conv2d_shape("conv2d", x.shape(), w.shape(), options), x.dtype(), x.device(),
                 kNHWC);
  const Tensor of_y({2, y.dim(1)}, DType::f32, x.device());
  cuda_host::vendor_call("cuDNN conv_norm", [x = View(x), statistics = View(statistics),
                                             weight = View(weight), bias = View(bias), eps,
                                             w = View(w), options, y = View(y), of_y = View(of_y)] {
    Slot slot;
    const auto made = kernels::conv_norm_in_steps(low(x), statistics.load(), weight.load(),
                                                  bias.load(), eps, low(w), options, slot);
    store(y, made.y);
    of_y.store(made.statistics);
  });
  return {y, of_y};
}

static Tensor backward(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                       const Tensor& weight, const Tensor& bias, double eps, const Tensor& w,
                       const Conv2dOptions& options, const Tensor& dw, const Tensor& dweight,
                       const Tensor& dbias, Slot& slot) {
  if (!cudnn::takes_conv_norm(x, w))
    return kernels::conv_norm_backward.plain(dy, x, statistics, weight, bias, eps, w, options, dw,
                                             dweight, dbias, slot);
  const Tensor dx(x.shape(), x.dtype(), x.device(), kNHWC);
  cuda_host::vendor_call(
      "cuDNN conv_norm_backward",
      [dy = View(dy), x = View(x), statistics = View(statistics), weight = View(weight),
       bias = View(bias), eps, w = View(w), options, dw = View(dw), dweight = View(dweight),
       dbias = View(dbias), dx = View(dx)] {
        Slot slot;
        const Tensor w_ = low(w), dw_ = empty_like(w_), dweight_ = weight.load(),
                     dbias_ = bias.load();
        store(dx, kernels::conv_norm_backward_in_steps(low(dy), low(x), statistics.load(),
                                                       weight.load(), bias.load(), eps, w_, options,
                                                       dw_, dweight_, dbias_, slot));
        store(dw, dw_);
        dweight.store(dweight_);
        dbias.store(dbias_);
      });
  for (const Tensor& t : {dw, dweight, dbias}) t.raise_version();
  return dx;
}

static const bool vendor =
    kernels::conv_norm.vendor_on(Device::cuda, forward, {.thread_invariant = true}) &&
    kernels::conv_norm_backward.vendor_on(Device::cuda, backward, {.thread_invariant = true});
