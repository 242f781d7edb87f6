// Mean over the positions of a sample that are not padding: (N, T, D) to (N, D).
#include <numeric>
#include "autograd/amp.h"
#include "core/tensor/copy.h"
#include "models/module/function_layer.h"
#include "ops/bucketize.h"
#include "ops/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace bellows {

// positions: (1, T) f32: 0, 1, 2, ...  lengths: (N) i64, or undefined: nothing is padding.
static Tensor mean_of_inner(const Tensor& x, const Tensor& positions, const Tensor& lengths_) {
  if (!lengths_.defined()) return mean(x, {.axes = {1}});
  const int64_t n = x.dim(0), t = x.dim(1);
  const Tensor lengths = cast(lengths_, DType::f32).view_as({n, 1});
  const Tensor behind = sub(slice(positions, 1, 0, t), lengths);  // (N, T), negative inside
  const Tensor bound = full({1}, -0.5, DType::f64, x.device());
  const Tensor padding = cast(kernels::bucketize(behind, bound), DType::f32);
  const Tensor counts = affine(padding, -1, 1);  // 0 or 1, which 16 bits hold exactly
  const Tensor sums = reshape(matmul(reshape(counts, {n, 1, t}), x), {n, x.dim(2)});
  return div(amp::full(sums), lengths);
}

static ModulePtr sequence_mean(const NoOptions&, LayerContext& context) {
  CHECK(context.shape.rank() == 2, "sequence_mean: needs samples of (T, D), got ", context.shape);
  std::vector<float> indices(context.shape[0]);
  std::iota(indices.begin(), indices.end(), 0.f);
  const Tensor positions = tensor_of(indices, {1, context.shape[0]}, context.device);
  context.shape = {context.shape[1]};
  return std::make_unique<FunctionLayer>(
      "sequence_mean", [positions, lengths = context.lengths](const Tensor& x) {
        return mean_of_inner(amp::full(x), positions, lengths ? lengths->value : Tensor());
      });
}
static const AddEntry<MakeLayer> sequence_mean_entry("sequence_mean",
                                                     "mean over the positions of a sample",
                                                     sequence_mean);

}  // namespace bellows
