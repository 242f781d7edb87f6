#include "models/metrics/metric.h"
#include "core/tensor/copy.h"
#include "ops/bucketize.h"
#include "ops/elementwise.h"
#include "ops/gather.h"

namespace bellows {

// 1 where x > bound or x is NaN, else 0.
static Tensor above(const Tensor& x, double bound) {
  return cast(kernels::bucketize(x, full({1}, bound, DType::f64, x.device())), DType::f32);
}

Tensor in_top_k(const Tensor& output, const Tensor& labels, int64_t k) {
  const Tensor own = gather(output, 1, contiguous(labels).view_as({labels.dim(0), 1}));
  // Counts scores >= the label's, including that one. The bound makes > act as >=: no f32 is in
  // [-1e-300, 0).
  const Tensor not_below = sum(above(sub(output, own), -1e-300), {.axes = {1}});
  return affine(sum(above(not_below, double(k) + 0.5)), -1, double(labels.dim(0)));
}

}  // namespace bellows
