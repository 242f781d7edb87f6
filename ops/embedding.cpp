#include "ops/embedding.h"
#include <cstring>
#include "autograd/backward.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/in_f32.h"
#include "ops/base/map.h"
#include "ops/base/op.h"
#include "ops/base/work.h"

namespace bellows {

Tensor embedding(const Tensor& index, const Tensor& weight) {
  CHECK(index.dtype() == DType::i64, "embedding: the index is ", index.dtype(), ", not i64");
  CHECK(weight.rank() == 2 && weight.dim(0) > 0, "embedding: weight ", weight.shape(),
        " should be (V, D) with at least one row");
  const Tensor rows = contiguous(index).view_as({index.numel()});
  Shape shape = index.shape();
  shape.push_back(weight.dim(1));
  const Tensor y = kernels::embedding(rows, weight).view_as(shape);
  if (!will_record(weight)) return y;
  return record("embedding", y, {weight},
                [rows = Saved(rows), weight = Saved(weight)](const Tensor& dy) {
                  const Tensor dw = grad_out(weight());
                  const Shape flat{rows().numel(), dw.dim(1)};
                  write_in(kNCHW, dw, [&](const Tensor& dense) {
                    kernels::embedding_backward(contiguous(dy).view_as(flat), rows(), dense);
                  });
                  return Grads{dw};
                });
}

// ---- specs

// Forward reads the rows that it writes, backward reads dy and writes the gradient of every row.
static const AddWork work("embedding", [](const RecordedOp& op) {
  const double y = result_bytes(op), weight = op.inputs.at(0).bytes();
  const double index = 8 * double(op.y.numel()) / double(op.inputs.at(0).shape[1]);
  return OpWork{{0, index + 2 * y}, {0, index + y + weight}};
});

// An arbitrary index (2, 3 V), 0, 3, 6, ... modulo V, that picks each of some rows several times.
static Tensor run_embedding(const Inputs& in) {
  const int64_t V = in[0].dim(0);
  std::vector<int64_t> index(6 * V);
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int64_t>(i) * 3 % V;
  return embedding(tensor_of(index, {2, 3 * V}, in[0].device()), in[0]);
}
static const AddOp spec({.name = "embedding",
                         .math = "rows of weight picked by index",
                         .cases = {{{5, 3}}, {{9, 8}}, {{1, 1}}},
                         .run = run_embedding,
                         .rejects = {{{4}}, {{2, 3, 4}}, {{0, 4}}},
                         .large = {{{128, 384}}, {{700, 33}}}});

// ---- CPU

static Tensor forward_cpu(const Tensor& index, const Tensor& weight) {
  const int64_t N = index.numel(), V = weight.dim(0), D = weight.dim(1);
  const Tensor dense = contiguous(weight), y = empty({N, D}, weight);
  const int64_t* const index_ = index.ptr<int64_t>();
  const auto bytes = D * static_cast<int64_t>(size_of(weight.dtype()));
  const int64_t chunk = std::max<int64_t>(kMapChunk / std::max<int64_t>(D, 1), 1);
  parallel_for(N, chunk, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t k = index_[n];
      if (k < 0 || k >= V)
        fail(Exit::data, "embedding: index ", k, " at position ", n, " is not in [0, ", V, ")");
      std::memcpy(y.bytes() + n * bytes, dense.bytes() + k * bytes, bytes);
    }
  });
  return y;
}

// Each chunk computes separate columns and passes over the whole index.
static void backward_cpu(const Tensor& dy, const Tensor& index, const Tensor& dw) {
  const int64_t N = index.numel(), D = dw.dim(1);
  const int64_t chunk = std::max<int64_t>(64, kMapChunk / std::max<int64_t>(N, 1));
  fill(dw, 0);
  visit_float(dy.dtype(), [&]<class T>(T) {
    const int64_t* const index_ = index.ptr<int64_t>();
    const T* const dy_ = dy.ptr<T>();
    T* const dw_ = dw.ptr<T>();
    parallel_for(D, chunk, [=](int64_t begin, int64_t end) {
      for (int64_t n = 0; n < N; ++n)
        for (int64_t d = begin; d < end; ++d) dw_[index_[n] * D + d] += dy_[n * D + d];
    });
  });
}

static const bool cpu = kernels::embedding.on(Device::cpu, forward_cpu) &&
                        kernels::embedding_backward.on(Device::cpu, in_f32<backward_cpu>);

}  // namespace bellows
