// Cross-entropy loss of class scores, averaged over the batch.
#pragma once
#include "ops/base/op.h"

namespace bellows {

struct CrossEntropyOptions {
  double label_smoothing = 0;  // weight of the uniform distribution in the target, 0 to 1
};

// Returns the scalar -mean over n of sum over c of q(n, c) * log_softmax(logits)(n, c), where q is
// (1 - smoothing) * [c = target(n)] + smoothing / C.
// logits: (N, C), f32 or f64, on a device also bf16 and f16; under amp, 16-bit logits are cast to
// f32. target: (N), i64.
//
// composed: log_softmax, gather and means. fused: one kernel forward and one backward; counted as
// fuse.loss. Throws (exit 2) if shapes or dtypes do not fit, and (exit 3) on a label outside [0,
// C). A device does not check labels: such a label makes the loss and its row's gradient NaN.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {}, Impl impl = Impl::fused);
// Throws what cross_entropy() throws for logits of this shape.
void check_cross_entropy(const Shape& logits, const Tensor& target,
                         const CrossEntropyOptions& options);

namespace kernels {
struct CrossEntropy {
  Tensor loss;  // scalar
  // (N, 2), for backward: a row's largest logit and log(sum(exp(logits - largest))). Rounded to one
  // number, log(sum(exp(logits))), they would lose digits of the second. f64 for f64, else f32.
  Tensor lse;
};
inline constinit Kernel<CrossEntropy(const Tensor& logits, const Tensor& target, double smoothing)>
    cross_entropy{"cross_entropy"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& logits, const Tensor& target,
                               const Tensor& lse, double smoothing)>
    cross_entropy_backward{"cross_entropy_backward"};
// Throws (exit 3) on a label outside [0, C). On a device it does nothing.
inline constinit Kernel<void(const Tensor& target, int64_t classes)> check_labels{"check_labels"};
}  // namespace kernels
}  // namespace bellows
