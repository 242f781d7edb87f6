// y_i = fn(x_i, ...) on the CPU over operands of any strides: what elementwise kernels are made of.
#pragma once
#include <array>
#include <utility>
#include "core/parallel.h"
#include "core/tensor.h"

namespace bellows {

// N tensors of one shape as rows of equal length: axes in the memory order of the first tensor,
// neighbours that follow each other in all of them merged, sizes of 1 dropped. No size may be 0.
template <int N> class Walk {
 public:
  using Offsets = std::array<int64_t, N>;

  Walk(const Shape& shape, const std::array<const Strides*, N>& strides) {
    const Strides& first = *strides[0];
    std::array<int, kMaxRank> order{};
    int n = 0;
    for (int i = 0; i < shape.rank(); ++i)
      if (shape[i] != 1) order[n++] = i;
    sort_axes(order, n, [&](int a, int b) { return first[a] > first[b]; });
    for (int k = 0; k < n; ++k) {
      Offsets step{};
      for (int t = 0; t < N; ++t) step[t] = (*strides[t])[order[k]];
      append(shape[order[k]], step);
    }
    for (int k = 0; k + 1 < rank_; ++k) rows *= size_[k];
    if (rank_) length = size_[rank_ - 1], steps = step_[rank_ - 1];
  }

  // fn(offsets): where each tensor's row starts, for the rows of [begin, end) in order.
  template <class Fn> void for_rows(int64_t begin, int64_t end, const Fn& fn) const {
    for (int64_t row = begin; row < end; ++row) {
      Offsets at{};
      int64_t left = row;
      for (int k = rank_ - 2; k >= 0; --k) {
        for (int t = 0; t < N; ++t) at[t] += left % size_[k] * step_[k][t];
        left /= size_[k];
      }
      fn(at);
    }
  }

  int64_t rows = 1, length = 1;
  Offsets steps{};  // between the elements of a row

 private:
  void append(int64_t size, const Offsets& step) {
    bool follows = rank_ > 0;
    for (int t = 0; follows && t < N; ++t) follows = step_[rank_ - 1][t] == step[t] * size;
    if (!follows) size_[rank_++] = 1;
    size_[rank_ - 1] *= size;
    step_[rank_ - 1] = step;
  }

  std::array<int64_t, kMaxRank> size_{};
  std::array<Offsets, kMaxRank> step_{};
  int rank_ = 0;
};

inline constexpr int64_t kMapChunk = 16384;  // elements that are worth another thread

template <class T, class Fn, class... X>
void map_dense(T* y, int64_t n, const Fn& fn, const X*... x) {
  for (int64_t i = 0; i < n; ++i) y[i] = fn(x[i]...);
}

// One row. Loops of unit stride, and those in which one of the operands but dy stands still, are
// vector code.
template <class T, size_t N, class Fn, size_t... k>
void map_row(T* y, const std::array<const T*, N>& x, const std::array<int64_t, N + 1>& steps,
             int64_t n, const Fn& fn, std::index_sequence<k...>) {
  using Steps = std::array<int64_t, N + 1>;
  if (((steps[k + 1] == 1) && ... && (steps[0] == 1))) return map_dense(y, n, fn, x[k]...);
  if constexpr (N == 2) {
    if (steps == Steps{1, 1, 0})
      return map_dense(
          y, n, [&fn, b = *x[1]](T a) { return fn(a, b); }, x[0]);
    if (steps == Steps{1, 0, 1})
      return map_dense(
          y, n, [&fn, a = *x[0]](T b) { return fn(a, b); }, x[1]);
  }
  if constexpr (N == 3) {
    if (steps == Steps{1, 1, 1, 0})
      return map_dense(
          y, n, [&fn, b = *x[2]](T dy, T a) { return fn(dy, a, b); }, x[0], x[1]);
    if (steps == Steps{1, 1, 0, 1})
      return map_dense(
          y, n, [&fn, a = *x[1]](T dy, T b) { return fn(dy, a, b); }, x[0], x[2]);
  }
  for (int64_t i = 0; i < n; ++i) y[i * steps[0]] = fn(x[k][i * steps[k + 1]]...);
}

// y = fn(x...), all of one shape and dtype T.
template <class T, size_t N, class Fn>
void map_into(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  if (y.numel() == 0) return;
  T* const y_ = y.ptr<T>();
  const auto each = [&]<size_t... k>(std::index_sequence<k...> all) {
    const std::array<const T*, N> x_{x[k]->template ptr<T>()...};
    if (((x[k]->strides() == y.strides()) && ...) && y.is_dense())
      return parallel_for(y.numel(), kMapChunk, [&](int64_t b, int64_t e) {
        map_dense(y_ + b, e - b, fn, (x_[k] + b)...);
      });
    const Walk<N + 1> walk(y.shape(), {&y.strides(), &x[k]->strides()...});
    const int64_t chunk = std::max<int64_t>(kMapChunk / walk.length, 1);
    parallel_for(walk.rows, chunk, [&](int64_t b, int64_t e) {
      walk.for_rows(b, e, [&](const auto& at) {
        map_row<T, N>(y_ + at[0], {(x_[k] + at[k + 1])...}, walk.steps, walk.length, fn, all);
      });
    });
  };
  each(std::make_index_sequence<N>());
}

}  // namespace bellows
