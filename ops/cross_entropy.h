// Cross-entropy of a batch of class scores, averaged over it.
#pragma once
#include "ops/base/op.h"

namespace bellows {

struct CrossEntropyOptions {
  double label_smoothing = 0;  // share of the target that is spread over all classes, 0 to 1
};

// -mean over n of sum over c of q(n, c) * log_softmax(logits)(n, c), where q is
// (1 - smoothing) * [c = target(n)] + smoothing / C. logits (N, C), f32 or f64, on a device also
// bf16 and f16; target i64 (N); a scalar.
//
// composed: log_softmax, gather, means. fused: one kernel, and one for backward; counted as
// fuse.loss. A label outside [0, C) is an error of the data, exit 3; on a device, which nobody
// waits for, it makes the loss and the gradient of its row NaN.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {}, Impl impl = Impl::fused);

namespace kernels {
struct CrossEntropy {
  Tensor loss;  // scalar
  // (N): log(sum(exp(logits))), all that backward needs besides its inputs; at least f32.
  Tensor lse;
};
inline constinit Kernel<CrossEntropy(const Tensor& logits, const Tensor& target, double smoothing)>
    cross_entropy{"cross_entropy"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& logits, const Tensor& target,
                               const Tensor& lse, double smoothing)>
    cross_entropy_backward{"cross_entropy_backward"};
// Refuses a label outside [0, C). On a device it does nothing.
inline constinit Kernel<void(const Tensor& target, int64_t classes)> check_labels{"check_labels"};
}  // namespace kernels
}  // namespace bellows
