// Batch normalisation: over the batch, each channel gets mean 0 and variance 1, then a weight and a
// bias of its own. Ioffe and Szegedy, "Batch Normalization", ICML 2015; the numbers are PyTorch's.
#pragma once
#include "autograd/record.h"
#include "core/tensor/kernel.h"
#include "ops/base/op.h"

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
                  const RunningStatistics& running, const BatchNormOptions& options = {},
                  Slot* slot = nullptr);

// relu(batch_norm(x) + residual), which is undefined or of x's shape: one pass, and for backward a
// bit an element instead of y.
Tensor batch_norm_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                       const Tensor& bias, const RunningStatistics& running,
                       const BatchNormOptions& options, Impl impl = Impl::fused,
                       Slot* slot = nullptr);

// For ops that normalise in their own way. x has that shape; a CHECK names `op`. Statistics of a
// batch move the running ones once, however often it is computed again.
DType precise(DType dtype);  // of what is (C): f64 of f64, else f32
void check_norm(const char* op, const Shape& x, const Tensor& weight, const Tensor& bias,
                const RunningStatistics& running, const BatchNormOptions& options);
void update_running(const RunningStatistics& running, const Tensor& x, const Tensor& statistics,
                    const BatchNormOptions& options);

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

// A pass as a whole, which libraries do in one go; its bits are read by the backward that comes
// with it, which writes dw and db.
using BatchNormBackward = NormalizedGrads (*)(const Tensor& dy, const Tensor& x,
                                              const Tensor& statistics, const Tensor& weight,
                                              const Tensor& bits, double eps, bool residual,
                                              const Tensor& dw, const Tensor& db, Slot& slot);
struct BatchNormPass {
  Tensor y, bits, statistics;
  BatchNormBackward backward;
};
// By the statistics of x; running ones are left alone, so twice is as good as once.
inline constinit Kernel<BatchNormPass(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      const Tensor& residual, bool relu, double eps, Slot& slot)>
    batch_norm_training{"batch_norm_training"};
// What is plain on every device: the kernels above, one after the other.
BatchNormPass batch_norm_in_steps(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Tensor& residual, bool relu, double eps, Slot& slot);
NormalizedGrads batch_norm_backward_in_steps(const Tensor& dy, const Tensor& x,
                                             const Tensor& statistics, const Tensor& weight,
                                             const Tensor& bits, double eps, bool residual,
                                             const Tensor& dw, const Tensor& db, Slot& slot);
}  // namespace kernels
}  // namespace bellows
