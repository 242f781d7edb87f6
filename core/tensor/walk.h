// Iterates over the elements of several tensors of one shape, with any strides.
#pragma once
#include <array>
#include "core/tensor/tensor.h"

namespace bellows {

// N tensors of one shape, seen as rows of equal length. Axes are in the memory order of the first
// tensor; axes that are adjacent in all tensors are merged, and axes of size 1 are dropped. No size
// may be 0.
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
    small_ = rows * length <= UINT32_MAX;
  }

  // Calls fn(offsets) for the rows [begin, end) in order: where the row starts in each tensor.
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

  // Returns the offset of element i of the walk in each tensor. A GPU divides 32 bits in a fraction
  // of the instructions that it needs for 64.
  HD Offsets at(int64_t i) const {
    Offsets at{};
    for (int k = rank_ - 1; k > 0; --k) {
      const int64_t above = small_ ? uint32_t(i) / uint32_t(size_[k]) : i / size_[k];
      for (int t = 0; t < N; ++t) at[t] += (i - above * size_[k]) * step_[k][t];
      i = above;
    }
    for (int t = 0; t < N; ++t) at[t] += i * step_[0][t];
    return at;
  }

  // The merged axes, outermost first.
  int rank() const { return rank_; }
  int64_t size(int axis) const { return size_[axis]; }
  const Offsets& step(int axis) const { return step_[axis]; }

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
  bool small_ = false;  // fewer than 2^32 elements
};

}  // namespace bellows
