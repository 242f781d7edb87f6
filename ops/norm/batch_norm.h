// Batch normalization: gives each channel mean 0 and variance 1 over the batch, then applies the
// channel's weight and bias. Ioffe and Szegedy, "Batch Normalization", ICML 2015; the options and
// defaults are PyTorch's.
#pragma once
#include "autograd/record.h"
#include "core/tensor/copy.h"
#include "core/tensor/kernel.h"
#include "ops/base/op.h"

namespace bellows {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // weight of the batch's statistics in the running ones
  bool training = true;   // use and track the batch's statistics; else use the running ones
};

// Running mean and unbiased variance: (C), in the dtype of statistics, precise(). batches: number
// of batches seen, i64 scalar, or undefined.
struct RunningStatistics {
  Tensor mean, var, batches = {};
};

// The parameters, running statistics and options of a batch_norm. weight, bias: (C).
struct NormLayer {
  Tensor weight, bias;
  RunningStatistics running;
  BatchNormOptions options = {};
};

// x: (N, C) or (N, C, H, W), any float dtype. y has the shape of x and its memory format if that is
// NHWC, else NCHW. Statistics are computed in f32, or in f64 for f64. Training updates
// `norm.running` in place and throws (exit 2) if a channel has a single element. Also throws if
// shapes do not fit.
Tensor batch_norm(const Tensor& x, const NormLayer& norm);

// y = relu(batch_norm(x) + residual). `residual` has the shape and dtype of x, or is undefined.
// Fused it is one pass, and backward reads one bit per element instead of y.
Tensor batch_norm_relu(const Tensor& x, const Tensor& residual, const NormLayer& norm,
                       Impl impl = Impl::fused);

// ---- for ops with their own kernels for normalization

DType precise(DType dtype);  // dtype of statistics and other (C) tensors: f64 for f64, else f32
// Throws (exit 2), naming `op`, unless the layer's tensors fit x and x can be normalized.
void check_norm(const char* op, const Shape& x, const NormLayer& norm);
// Returns the unbiased variance of x's channels over the biased one: n / (n - 1).
double unbiased(const Tensor& x);

// Update of the running statistics by those of a batch:
//   mean = (1 - momentum) mean + momentum * batch mean
// var changes likewise, by the batch's variance times `unbiased`. Adds 1 to `batches`. Without
// `mean` nothing is updated.
struct RunningUpdate : RunningStatistics {
  double momentum = 0, unbiased = 1;
};
// Returns the update of `norm.running` by one batch; empty while a forward is recomputed, so that
// each batch counts once.
RunningUpdate update_of(const NormLayer& norm, double unbiased);

namespace kernels {
// norm(x) = (x - mean) / sqrt(var + eps) * weight + bias. statistics: (2, C), means and biased
// variances. It and all (C) tensors are f32, or f64 if x is.
struct Normalization {
  Tensor statistics, weight, bias;
  double eps;
};
struct Normalized {
  Tensor y, bits;  // one bit per element, y > 0, in a layout of the backend; undefined without relu
};
struct Incoming {
  Tensor dy, bits;
};
inline constinit Kernel<Tensor(const Tensor& x, const RunningUpdate& running)> channel_statistics{
    "batch_norm"};
// Applies `running`, for statistics that another kernel or library has computed.
inline constinit Kernel<void(const Tensor& statistics, const RunningUpdate& running)>
    update_running{"batch_norm"};
// A running statistic after the update, on every device.
HD inline double moved(double running, double batch, double momentum, double unbiased = 1) {
  return (1 - momentum) * running + momentum * unbiased * batch;
}
// y = norm(x) + residual, and relu of that if `relu`. The residual may be undefined.
inline constinit Kernel<Normalized(const Tensor& x, const Normalization& norm,
                                   const Tensor& residual, bool relu)>
    batch_norm{"batch_norm"};
// db = sum of g, dw = sum of g * normalized x, where g is dy + more, rounded to their dtype, and 0
// where its bit is 0. `more` may be undefined. Returns the operands of backward_x: with `keep` or
// `more`, g (also the gradient of a residual) without bits; else dy and the bits.
inline constinit Kernel<Incoming(const Tensor& dy, const Tensor& more, const Tensor& x,
                                 const Normalization& norm, const Tensor& bits, bool keep,
                                 const Tensor& dw, const Tensor& db)>
    batch_norm_backward_w{"batch_norm_backward_w"};
// dx = weight / sqrt(var + eps) * (g - db / n - normalized x * dw / n), with n elements per
// channel; g is dy masked by the bits. If dw and db are undefined, statistics are constants and
// only the first term remains.
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& x, const Normalization& norm,
                               const Tensor& dw, const Tensor& db, const Tensor& bits)>
    batch_norm_backward_x{"batch_norm_backward_x"};
}  // namespace kernels

// A norm by these statistics, with weight and bias in their precision.
kernels::Normalization normalization(const Tensor& statistics, const NormLayer& norm);

// A norm of x, for backward.
struct SavedNorm {
  SavedNorm(const Tensor& x, const Tensor& statistics, const NormLayer& norm)
      : x(x), statistics(statistics), weight(norm.weight), bias(norm.bias), eps(norm.options.eps) {}
  kernels::Normalization norm() const {
    return normalization(statistics(), {weight(), bias(), {}, {.eps = eps}});
  }

  Saved x, statistics, weight, bias;
  double eps;
};
// Gradients of its parameters: memory for kernels, which write them in the precision of the
// statistics, and then the gradients in the dtypes of the parameters.
struct NormGrads {
  explicit NormGrads(const SavedNorm& norm);
  Tensor of_weight(const SavedNorm& norm) const { return cast(dw, norm.weight().dtype()); }
  Tensor of_bias(const SavedNorm& norm) const { return cast(db, norm.bias().dtype()); }
  Tensor dw, db;
};
}  // namespace bellows
