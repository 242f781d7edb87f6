// Cross-entropy loss of class scores, averaged over the positions that count.
#pragma once
#include "ops/base/op.h"

namespace bellows {

inline constexpr int64_t kLeftOut = -1;  // class target of a position that does not count

struct CrossEntropyOptions {
  double label_smoothing = 0;  // weight of the uniform distribution in the target, 0 to 1
};

// Returns the scalar -sum over n of sum over c of q(n, c) * log_softmax(logits)(n, c) / divisor,
// where q is (1 - smoothing) * [c = target(n)] + smoothing / C. Positions n whose target is
// kLeftOut add nothing, and their gradient is 0.
// logits: (..., C), f32 or f64, on a device also bf16 and f16; under amp, 16-bit logits are cast to
// f32. target: (...), i64. divisor: an f32 scalar on the device of the logits, above 0; undefined:
// the number of positions that count, or 1 if there is none. The host does not wait for it.
//
// composed: log_softmax, gather and sums, for finite logits. fused: one kernel forward and one
// backward; counted as fuse.loss. Throws (exit 2) if shapes or dtypes do not fit, and (exit 3) on a
// label that is neither kLeftOut nor in [0, C). A device does not check labels: such a label makes
// the loss and its row's gradient NaN.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {}, Impl impl = Impl::fused,
                     const Tensor& divisor = {});

// Returns (...) for scores (..., C).
inline Shape positions_of(const Shape& scores) {
  return Shape(std::span(scores.begin(), std::max(scores.rank() - 1, 0)));
}
// Class targets as gather() takes them, and which of them count.
struct ClassTargets {
  Tensor index;   // (N, 1), i64: the target, or 0 where it is kLeftOut
  Tensor counts;  // (N, 1): 0 where the target is kLeftOut, else 1; undefined: known to be all 1
};
// target: i64, any shape of N elements. dtype: that of `counts`. Checks labels, as cross_entropy()
// does. Does not wait for a device, where `counts` is always defined.
ClassTargets class_targets(const Tensor& target, int64_t classes, DType dtype);

// Returns the sum over n of counts(n) times the mean over k of x(n, k), divided by `divisor`. x:
// (N, K). counts: (N, 1), or undefined: all are 1. divisor: a scalar, or undefined: the sum of the
// counts, at least 1. If both are undefined, the result is mean(x), bit for bit.
Tensor mean_of_counted(const Tensor& x, const Tensor& counts, const Tensor& divisor);

namespace kernels {
struct CrossEntropy {
  Tensor loss;  // scalar
  // (N, 2), for backward: a row's largest logit and log(sum(exp(logits - largest))). They stay two
  // numbers, because their sum would round off digits of the second. f64 for f64, else f32. Rows
  // that are left out have undefined values.
  Tensor lse;
  Tensor divisor;  // f64 scalar: the one given, or the number of rows that count, at least 1
};
// logits: (N, C). target: (N). divisor: f32, may be undefined.
inline constinit Kernel<CrossEntropy(const Tensor& logits, const Tensor& target,
                                     const Tensor& divisor, double smoothing)>
    cross_entropy{"cross_entropy"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& logits, const Tensor& target,
                               const Tensor& lse, const Tensor& divisor, double smoothing)>
    cross_entropy_backward{"cross_entropy_backward"};
}  // namespace kernels
}  // namespace bellows
