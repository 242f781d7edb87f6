#include "models/losses/loss.h"
#include "core/config/visitor.h"
#include "core/tensor/copy.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/shape.h"

namespace bellows {

void visit(Visitor& v, LossOptions& o) {
  v.choice("name", o.loss, "loss that training minimizes").also({"criterion", "loss_fn"});
  v("fused", o.fused, "softmax and cross-entropy in one kernel");
}

Tensor criterion(LossInput in, const LossOptions& options) {
  in.fused = options.fused;
  return options.loss.make(in);
}

static std::string text_of(const LossInput& in) {
  return cat("output ", in.output.dtype(), " ", in.output.shape(), ", target ", in.target.dtype(),
             " ", in.target.shape());
}

void need_classes(const char* loss, const LossInput& in) {
  CHECK(in.target.dtype() == DType::i64, loss, ": the targets are values (", text_of(in),
        "); use  loss: {name: mse}");
}

void need_values(const char* loss, const LossInput& in) {
  CHECK(is_float(in.target.dtype()), loss, ": the targets are classes (", text_of(in),
        "); use  loss: {name: cross_entropy}");
}

static Errors class_errors(const char* loss, const LossInput& in) {
  Tensor y = amp::full(in.output);
  CHECK(y.rank() >= 2 && y.numel() > 0 && in.target.shape() == positions_of(y.shape()), loss, ": ",
        text_of(in), "; for classes they should be (..., C) and (...)");
  const auto [index, counts] = class_targets(in.target, y.dim(-1), y.dtype());
  if (y.rank() > 2) y = reshape(y, {-1, y.dim(-1)});
  const Tensor ones = full(index.shape(), 1, y);
  return {sub(y, kernels::gather_backward(ones, 1, index, y.shape())), counts};
}

Errors errors_of(const char* loss, const LossInput& in) {
  const Tensor& target = in.target;
  if (target.dtype() == DType::i64) return class_errors(loss, in);
  need_values(loss, in);
  const Tensor y = amp::full(in.output);
  const Shape wanted{target.rank() ? target.dim(0) : 1, target.rank() == 2 ? target.dim(1) : 1};
  CHECK(y.shape() == wanted && y.numel() == target.numel() && y.numel() > 0, loss, ": ",
        text_of(in), "; for values they should be (N, K) and (N, K), or (N, 1) and (N)");
  return {sub(y, cast(contiguous(target), y.dtype()).view_as(wanted)), {}};
}

}  // namespace bellows
