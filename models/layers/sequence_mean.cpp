// Mean over the positions of a sample that are not padding: (N, T, D) to (N, D).
#include <numeric>
#include "autograd/amp.h"
#include "core/tensor/copy.h"
#include "models/module/module.h"
#include "ops/bucketize.h"
#include "ops/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace bellows {

namespace {
class SequenceMean : public Module {
 public:
  SequenceMean(const NoOptions&, LayerContext& context) : lengths_(context.lengths) {
    CHECK(context.shape.rank() == 2, "sequence_mean: needs samples of (T, D), got ", context.shape);
    std::vector<float> positions(context.shape[0]);
    std::iota(positions.begin(), positions.end(), 0.f);
    positions_ = tensor_of(positions, {1, context.shape[0]}, context.device);
    context.shape = {context.shape[1]};
  }
  const char* kind() const override { return "sequence_mean"; }

 protected:
  Tensor forward(const Tensor& x_) override {
    const Tensor x = amp::full(x_);
    if (!lengths_ || !lengths_->value.defined()) return mean(x, {.axes = {1}});
    const int64_t n = x.dim(0), t = x.dim(1);
    const Tensor lengths = cast(lengths_->value, DType::f32).view_as({n, 1});
    const Tensor behind = sub(slice(positions_, 1, 0, t), lengths);  // (N, T), negative inside
    const Tensor bound = full({1}, -0.5, DType::f64, x.device());
    const Tensor padding = cast(kernels::bucketize(behind, bound), DType::f32);
    const Tensor counts = affine(padding, -1, 1);  // 0 or 1, which 16 bits hold exactly
    const Tensor sums = reshape(matmul(reshape(counts, {n, 1, t}), x), {n, x.dim(2)});
    return div(amp::full(sums), lengths);
  }

 private:
  std::shared_ptr<const BatchLengths> lengths_;
  Tensor positions_;  // (1, T) f32: 0, 1, 2, ...
};
}  // namespace

static const AddEntry<MakeLayer> sequence_mean_entry("sequence_mean",
                                                     "mean over the positions of a sample",
                                                     make_layer<SequenceMean, NoOptions>);

}  // namespace bellows
