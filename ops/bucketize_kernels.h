// Kernels of bucketize and in_level, for the device whose map_into() was included before this file
// (see ops/elementwise_kernels.h).
#pragma once
#include "core/tensor/copy.h"
#include "ops/base/maths.h"
#include "ops/bucketize.h"

namespace bellows {

namespace {

// True if x is above the edge. NaN is above all edges.
FORMULA bool is_above(double x, double edge) { return !(x <= edge); }

// Number of edges below x, by binary search.
struct Bucket {
  const double* edges = nullptr;
  int64_t n_edges = 0;
  template <class A> FORMULA A operator()(A x) const {
    int64_t low = 0, high = n_edges;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (is_above(double(x), edges[middle]))
        low = middle + 1;
      else
        high = middle;
    }
    return A(low);
  }
};
// `level` if x is in that bucket, which has two edges, else 0.
struct InLevel {
  int64_t level;
  const double* edges = nullptr;
  int64_t n_edges = 0;
  template <class A> FORMULA A operator()(A x) const {
    const bool inside = (level == 0 || is_above(double(x), edges[level - 1])) &&
                        (level == n_edges || !is_above(double(x), edges[level]));
    return inside ? A(level) : A(0);
  }
};

template <class F> Tensor by_edges(const Tensor& x, const Tensor& boundaries, F formula) {
  const Tensor edges = cast(contiguous(boundaries), DType::f64), y = empty_like(x);
  formula.edges = edges.ptr<double>(), formula.n_edges = edges.numel();
  map_into(y, {&x}, formula);
  return y;
}

bool add_kernels(Device device, const char* file = __builtin_FILE()) {
  const auto bucketize = [](const Tensor& x, const Tensor& boundaries) {
    return by_edges(x, boundaries, Bucket());
  };
  const auto in_level = [](const Tensor& x, const Tensor& boundaries, int64_t level) {
    return by_edges(x, boundaries, InLevel{level});
  };
  return kernels::bucketize.on(device, bucketize, file) &&
         kernels::in_level.on(device, in_level, file);
}

}  // namespace
}  // namespace bellows
