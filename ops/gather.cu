#include <limits>
#include "core/base/round.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/map.cuh"
#include "ops/embedding.h"
#include "ops/gather.h"

namespace bellows {

namespace {

// Result for an index outside its axis.
template <class T> __device__ T nowhere() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::lowest();
  else
    return T(Acc<T>(NAN));
}

// y[.., i, ..] = x[.., index[.., i, ..], ..]. Blocks of 256 threads, one element per iteration.
template <class T>
__global__ void pick(T* y, const T* x, const int64_t* index, Walk<3> walk, int64_t n, int64_t size,
                     int64_t step) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto at = walk.at(i);  // offsets in y, in index, and in x at index 0
    const int64_t k = index[at[1]];
    y[at[0]] = k >= 0 && k < size ? x[at[2] + k * step] : nowhere<T>();
  }
}

Tensor gather_cuda(const Tensor& x, int axis, const Tensor& index) {
  const Tensor y(index.shape(), x.dtype(), x.device());
  if (y.numel() == 0) return y;
  Strides across = x.strides();
  across[axis] = 0;
  const Walk<3> walk(index.shape(), {&y.strides(), &index.strides(), &across});
  visit_dtype(x.dtype(), [&]<class T>(T) {
    launch(pick<T>, grid_of(y.numel()), y.ptr<T>(), x.ptr<T>(), index.ptr<int64_t>(), walk,
           y.numel(), x.dim(axis), x.strides()[axis]);
  });
  return y;
}

// The indexed axis. dy and index have `picks` elements along it; dx has `size`, cut into parts. One
// thread adds everything picked from its part of a line, so the order is that of the index. If any
// index is out of range, every part starts from nowhere(), so the whole gradient shows it.
struct Axis {
  int64_t picks, dy_step, index_step;
  int64_t size, dx_step, part;
};

template <class T>
__global__ void put_back(Acc<T>* dx, const T* dy, const int64_t* index, Walk<3> lines,
                         int64_t n_lines, Axis axis) {
  const int64_t n = n_lines * ceil_div(axis.size, axis.part);
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto at = lines.at(i % n_lines);  // offsets in dy, index and dx
    const int64_t begin = i / n_lines * axis.part, end = std::min(begin + axis.part, axis.size);
    for (int64_t j = 0; j < axis.picks; ++j) {
      const int64_t k = index[at[1] + j * axis.index_step];
      if (k >= begin && k < end)
        dx[at[2] + k * axis.dx_step] += Acc<T>(dy[at[0] + j * axis.dy_step]);
      else if (k < 0 || k >= axis.size)
        dx[at[2] + begin * axis.dx_step] = nowhere<Acc<T>>();
    }
  }
}

Tensor gather_backward_cuda(const Tensor& dy, int axis, const Tensor& index, const Shape& shape) {
  constexpr int64_t kWantedThreads = 65536;
  return visit_stored(dy.dtype(), [&]<class T>(T) {
    const Tensor dx = full(shape, 0, dtype_of<Acc<T>>, dy.device());
    if (dy.numel() == 0 || dx.numel() == 0) return cast(dx, dy.dtype());
    Shape across = index.shape();
    across[axis] = 1;
    const Walk<3> lines(across, {&dy.strides(), &index.strides(), &dx.strides()});
    const int64_t n_lines = across.numel(), size = shape[axis];
    const int64_t parts = std::clamp<int64_t>(kWantedThreads / n_lines, 1, size);
    const Axis along{index.dim(axis),    dy.strides()[axis],   index.strides()[axis], size,
                     dx.strides()[axis], ceil_div(size, parts)};
    launch(put_back<T>, grid_of(n_lines * parts), dx.ptr<Acc<T>>(), dy.ptr<T>(),
           index.ptr<int64_t>(), lines, n_lines, along);
    return cast(dx, dy.dtype());
  });
}

// ---- embedding gathers along axis 0, by an index that is the same for all columns

Tensor for_columns(const Tensor& index, int64_t columns) {
  return index.view({index.numel(), columns}, {1, 0}, index.offset());
}

Tensor embedding_cuda(const Tensor& index, const Tensor& weight) {
  return kernels::gather(weight, 0, for_columns(index, weight.dim(1)));
}

void embedding_backward_cuda(const Tensor& dy, const Tensor& index, const Tensor& dw) {
  copy_into(dw, kernels::gather_backward(dy, 0, for_columns(index, dw.dim(1)), dw.shape()));
}

const bool gpu = kernels::gather.on(Device::cuda, gather_cuda) &&
                 kernels::gather_backward.on(Device::cuda, gather_backward_cuda) &&
                 kernels::embedding.on(Device::cuda, embedding_cuda) &&
                 kernels::embedding_backward.on(Device::cuda, embedding_backward_cuda);

}  // namespace
}  // namespace bellows
