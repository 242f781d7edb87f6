#include "ops/bucketize.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/op.h"

namespace bellows {

Tensor bucketize(const Tensor& x, const Tensor& boundaries) {
  CHECK(boundaries.rank() == 1, "bucketize: boundaries ", boundaries.shape(), " are not a list");
  return kernels::bucketize(x, boundaries, DType::i64);
}

static const AddOp spec({.name = "bucketize",
                         .math = "number of boundaries below x",
                         .cases = {{{7}}, {{2, 3, 4, 5}}},
                         .run =
                             [](const Inputs& in) {
                               const std::vector<float> boundaries{-1, -0.5, 0, 0.25, 1};
                               return bucketize(in[0], tensor_of(boundaries, {5}, in[0].device()));
                             },
                         .large = {{{3, 20000}}},
                         .differentiable = false});

// ---- CPU

static Tensor bucketize_cpu(const Tensor& x, const Tensor& boundaries, DType dtype) {
  const Tensor dense = contiguous(x), y(x.shape(), dtype);
  const Tensor edges = contiguous(cast(boundaries, DType::f64));
  const auto edges_ = edges.data<double>();
  CHECK(std::ranges::is_sorted(edges_), "bucketize: the ", edges_.size(),
        " boundaries are not in ascending order");
  visit_float(x.dtype(), [&]<class T>(T) {
    visit_dtype(dtype, [&]<class To>(To) {
      const T* const x_ = dense.ptr<T>();
      To* const y_ = y.ptr<To>();
      parallel_for(x.numel(), 8192, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
          const auto at = std::ranges::lower_bound(edges_, double(x_[i]));
          y_[i] = To(x_[i] != x_[i] ? edges_.size() : at - edges_.begin());
        }
      });
    });
  });
  return y;
}
static const bool cpu = kernels::bucketize.on(Device::cpu, bucketize_cpu);

}  // namespace bellows
