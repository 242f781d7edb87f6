// Shape and strides of up to six axes, stored inline. A memory format is an order of the strides.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include "core/base/check.h"

namespace bellows {

inline constexpr int kMaxRank = 6;

class Shape {
 public:
  constexpr Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    CHECK(dims.size() <= kMaxRank, "a tensor has at most ", kMaxRank, " axes, got ", dims.size());
    std::ranges::copy(dims, dims_.begin());
  }

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  // A negative axis counts from the end.
  int64_t operator[](int axis) const { return dims_[axis < 0 ? axis + rank_ : axis]; }
  int64_t& operator[](int axis) { return dims_[axis < 0 ? axis + rank_ : axis]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  int64_t numel() const {
    int64_t n = 1;
    for (const int64_t d : *this) n *= d;
    return n;
  }
  void push_back(int64_t dim) {
    CHECK(rank_ < kMaxRank, "a tensor has at most ", kMaxRank, " axes");
    dims_[rank_++] = dim;
  }
  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)  // faster than memcmp for so few values
      if (dims_[i] != other.dims_[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};
using Strides = Shape;  // in elements

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? "," : "") << shape[i];
  return out << ']';
}

// Order of the axes in memory, outermost first. Axes: N batch, C channels, then those of the image.
struct MemoryFormat {
  const char* name;
  int8_t batch_at, channels_at;  // position; negative: counted from the innermost
  bool operator==(const MemoryFormat& other) const {
    return batch_at == other.batch_at && channels_at == other.channels_at;
  }
};
inline constexpr MemoryFormat kNCHW{"nchw", 0, 1}, kNHWC{"nhwc", 0, -1}, kCHWN{"chwn", -1, 0};

Strides strides_of(const Shape& shape, const MemoryFormat& format = kNCHW);

// Insertion sort, for at most six axes. std::sort triggers a bounds warning of g++ 12 here.
template <class Less> void sort_axes(std::array<int, kMaxRank>& order, int n, const Less& less) {
  for (int i = 1; i < n; ++i)
    for (int j = i; j > 0 && less(order[j], order[j - 1]); --j) std::swap(order[j], order[j - 1]);
}

// Returns the axis counted from the first. Throws Error, exit 2, if the shape does not have it.
inline int axis_of(int axis, const Shape& shape, const char* op) {
  const int rank = shape.rank();
  CHECK(axis >= -rank && axis < rank, op, ": no axis ", axis, " in shape ", shape);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace bellows
