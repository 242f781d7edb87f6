#include "ops/gather.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/in_f32.h"
#include "core/tensor/walk.h"
#include "ops/base/map.h"
#include "ops/base/op.h"
#include "ops/shape.h"

namespace bellows {

Tensor gather(const Tensor& x, int axis_, const Tensor& index) {
  const int axis = axis_of(axis_, x.shape(), "gather");
  CHECK(index.dtype() == DType::i64, "gather: the index is ", index.dtype(), ", not i64");
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || index.dim(i) <= x.dim(i);
  CHECK(fits, "gather: index ", index.shape(), " does not fit into x ", x.shape(),
        " outside of axis ", axis);
  const Tensor y = kernels::gather(x, axis, index);
  if (!will_record(x)) return y;
  return record("gather", y, {x},
                [axis, index = Saved(index), shape = x.shape()](const Tensor& dy) {
                  return Grads{kernels::gather_backward(dy, axis, index(), shape)};
                });
}

std::vector<Tensor> meshgrid(std::span<const Tensor> axes) {
  Shape shape;
  for (const Tensor& axis : axes) {
    CHECK(axis.rank() == 1, "meshgrid: ", axis.shape(), " is not a list of coordinates");
    shape.push_back(axis.dim(0));
  }
  std::vector<Tensor> grids;
  for (int k = 0; k < shape.rank(); ++k) {
    Shape along;
    for (int i = 0; i < shape.rank(); ++i) along.push_back(i == k ? shape[k] : 1);
    grids.push_back(expand(reshape(axes[k], along), shape));
  }
  return grids;
}

// ---- specs

// An arbitrary index, 0, 3, 6, ... modulo the axis, that picks some elements twice.
static Tensor some_index(const Shape& shape, int64_t axis_size, Device device) {
  std::vector<int64_t> index(shape.numel());
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int64_t>(i) * 3 % axis_size;
  return tensor_of(index, shape, device);
}
static Tensor run_gather(const Inputs& in) {
  Shape shape = in[0].shape();
  shape[-1] = 5;
  return gather(in[0], 1, some_index(shape, in[0].dim(-1), in[0].device()));
}
static const AddOp gather_spec({.name = "gather",
                                .math = "elements of x picked along an axis, by line",
                                .cases = {{{2, 3}}, {{4, 7}}},
                                .run = run_gather,
                                .rejects = {{{4}}, {{2, 2, 3}}},
                                .large = {{{20000, 3}}, {{60, 1001}}}});
static const AddOp meshgrid_spec({.name = "meshgrid",
                                  .math = "coordinates of the points of a grid",
                                  .cases = {{{2}, {3}}},
                                  .run = [](const Inputs& in) { return concat(meshgrid(in), 0); },
                                  .rejects = {{{2}, {2, 3}}}});

// ---- CPU

static Walk<3> walk_over(const Tensor& dense, const Tensor& index, Strides whole, int axis) {
  whole[axis] = 0;
  return Walk<3>(index.shape(), {&dense.strides(), &index.strides(), &whole});
}

// Pairs elements of `dense`, which has the index's shape, with the ones picked from `whole`.
struct Picks {
  Picks(const Tensor& dense, const Tensor& index, const Tensor& whole, int axis)
      : step(whole.strides()[axis]),
        size(whole.dim(axis)),
        index(index.ptr<int64_t>()),
        walk(walk_over(dense, index, whole.strides(), axis)) {}

  // Calls fn(offset in dense, offset in whole) for rows [begin, end), in row-major order.
  template <class Fn> void for_rows(int64_t begin, int64_t end, const Fn& fn) const {
    walk.for_rows(begin, end, [&](const auto& at) {
      const auto [dense_step, index_step, whole_step] = walk.steps;
      for (int64_t i = 0; i < walk.length; ++i) {
        const int64_t k = index[at[1] + i * index_step];
        CHECK(k >= 0 && k < size, "gather: index ", k, " is not in [0, ", size, ")");
        fn(at[0] + i * dense_step, at[2] + i * whole_step + k * step);
      }
    });
  }

  int64_t step, size;
  const int64_t* index;
  Walk<3> walk;
};

static Tensor gather_cpu(const Tensor& x, int axis, const Tensor& index) {
  const Tensor y(index.shape(), x.dtype());
  if (y.numel() == 0) return y;
  const Picks picks(y, index, x, axis);
  visit_dtype(x.dtype(), [&]<class T>(T) {
    T* const y_ = y.ptr<T>();
    const T* const x_ = x.ptr<T>();
    const int64_t chunk = std::max<int64_t>(kMapChunk / picks.walk.length, 1);
    parallel_for(picks.walk.rows, chunk, [&](int64_t b, int64_t e) {
      picks.for_rows(b, e, [&](int64_t to, int64_t from) { y_[to] = x_[from]; });
    });
  });
  return y;
}

// Single-threaded, because two elements of the index may name the same position.
static Tensor gather_backward_cpu(const Tensor& dy, int axis, const Tensor& index,
                                  const Shape& shape) {
  const Tensor dense = contiguous(dy), dx = full(shape, 0, dy);
  if (dy.numel() == 0) return dx;
  const Picks picks(dense, index, dx, axis);
  visit_float(dy.dtype(), [&]<class T>(T) {
    T* const dx_ = dx.ptr<T>();
    const T* const dy_ = dense.ptr<T>();
    picks.for_rows(0, picks.walk.rows, [&](int64_t from, int64_t to) { dx_[to] += dy_[from]; });
  });
  return dx;
}

static const bool cpu = kernels::gather.on(Device::cpu, gather_cpu) &&
                        kernels::gather_backward.on(Device::cpu, in_f32<gather_backward_cpu>);

}  // namespace bellows
