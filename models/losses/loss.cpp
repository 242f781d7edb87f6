#include "models/losses/loss.h"
#include "core/config/visitor.h"
#include "core/tensor/copy.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gather.h"

namespace bellows {

void visit(Visitor& v, LossOptions& o) {
  v.choice("name", o.loss, "loss that training minimizes");
  v("fused", o.fused, "softmax and cross-entropy in one kernel");
}

Tensor criterion(LossInput in, const LossOptions& options) {
  in.fused = options.fused;
  return options.loss.make(in);
}

Tensor one_hot_error(const char* loss, const LossInput& in) {
  const Tensor y = amp::full(in.output);
  CHECK(y.rank() == 2 && in.labels.shape() == Shape{y.dim(0)}, loss, ": output ", y.shape(),
        " and labels ", in.labels.shape(), " should be (N, C) and (N)");
  CHECK(in.labels.dtype() == DType::i64, loss, ": the labels are ", in.labels.dtype(), ", not i64");
  CHECK(y.numel() > 0, loss, ": an empty batch ", y.shape());
  kernels::check_labels(in.labels, y.dim(1));
  const Tensor index = contiguous(in.labels).view_as({y.dim(0), 1});
  return sub(y, kernels::gather_backward(full(index.shape(), 1, y), 1, index, y.shape()));
}

}  // namespace bellows
