#include "ops/conv/norm_conv2d.h"

namespace bellows::kernels {

NormConv2d norm_conv2d_in_steps(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                const Tensor& bias, double eps, const Tensor& w,
                                const Conv2dOptions& options, Slot& slot) {
  const Tensor in =
      statistics.defined() ? batch_norm(x, statistics, weight, bias, {}, true, eps).y : x;
  const Tensor y = conv2d(in, w, {}, options, slot);
  return {y, channel_statistics(y)};
}

Tensor norm_conv2d_backward_in_steps(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                                     const Tensor& weight, const Tensor& bias, double eps,
                                     const Tensor& w, const Conv2dOptions& options,
                                     const Tensor& dw, const Tensor& dweight, const Tensor& dbias,
                                     Slot& slot) {
  const auto [in, bits] = batch_norm(x, statistics, weight, bias, {}, true, eps);
  conv2d_backward_w(dy, in, dw, {}, options, slot);
  const Tensor din = conv2d_backward_x(dy, w, x.shape(), options, slot);
  batch_norm_backward_w(din, x, statistics, bits, eps, dweight, dbias);
  return batch_norm_backward_x(din, x, statistics, weight, dweight, dbias, bits, eps, false).dx;
}

static const bool cpu = norm_conv2d.on(Device::cpu, norm_conv2d_in_steps) &&
                        norm_conv2d_backward.on(Device::cpu, norm_conv2d_backward_in_steps);

}  // namespace bellows::kernels
