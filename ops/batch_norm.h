// Batch normalisation: over the batch, each channel gets mean 0 and variance 1, then a weight and a
// bias of its own. Ioffe and Szegedy, "Batch Normalization", ICML 2015; the numbers are PyTorch's.
#pragma once
#include "autograd/record.h"
#include "core/kernel.h"
#include "ops/op.h"

namespace bellows {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // share of a batch's statistics in the running ones
  bool training = true;   // normalise by the batch, and update the running ones; else by those
};

// (C), f32; the variance is the unbiased one. And how many batches made them: i64, may be
// undefined.
struct RunningStatistics {
  Tensor mean, var, batches = {};
};

// x (N, C) or (N, C, H, W), weight and bias (C): y like x, in its memory format. f32, f64, bf16 or
// f16; statistics are computed in f32, of f64 in f64.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const RunningStatistics& running, const BatchNormOptions& options = {});

// relu(batch_norm(x) + residual), which is undefined or of x's shape: one pass, and for backward a
// bit an element instead of y.
Tensor batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                       const Tensor& bias, const RunningStatistics& running,
                       const BatchNormOptions& options, Impl impl = Impl::fused);

// `statistics` are (2, C): means and biased variances. f32, of f64 in f64, as are all that is (C).
namespace kernels {
struct Normalized {
  Tensor y, bits;  // bits of y > 0, undefined without relu
};
struct NormalizedGrads {
  Tensor dx, dresidual;
};
inline constinit Kernel<Tensor(const Tensor& x)> channel_statistics{"batch_norm"};
// mean = (1 - momentum) mean + momentum batch's, and so the variance, times `unbiased`; batches
// + 1.
inline constinit Kernel<void(const Tensor& mean, const Tensor& var, const Tensor& batches,
                             const Tensor& statistics, double momentum, double unbiased)>
    update_running{"batch_norm"};
// y = (x - mean) / sqrt(var + eps) * weight + bias (+ residual)
inline constinit Kernel<Normalized(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                   const Tensor& bias, const Tensor& residual, bool relu,
                                   double eps)>
    batch_norm{"batch_norm"};
// db = sum of dy, dw = sum of dy * normalised x, where dy counts as 0 if its bit is.
inline constinit Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                             const Tensor& bits, double eps, const Tensor& dw, const Tensor& db)>
    batch_norm_backward_w{"batch_norm_backward_w"};
// dx = weight / sqrt(var + eps) * (dy - db / n - normalised x * dw / n), n elements a channel; the
// first term alone where dw and db are undefined: then statistics do not depend on x.
inline constinit Kernel<NormalizedGrads(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                                        const Tensor& weight, const Tensor& dw, const Tensor& db,
                                        const Tensor& bits, double eps, bool residual)>
    batch_norm_backward_x{"batch_norm_backward_x"};
}  // namespace kernels
}  // namespace bellows
