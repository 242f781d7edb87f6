// Online softmax: the maximum of a row and sum(exp(x - maximum)), in one pass over the row. Used by
// softmax and cross-entropy.
#pragma once
#include <cmath>
#include <limits>

namespace bellows {

template <class A> struct Exps {
  A max, sum;

  // Starts with the lowest finite value, not -inf: the difference of two infinities would be NaN.
  __host__ __device__ static Exps nothing() { return {std::numeric_limits<A>::lowest(), 0}; }
  __device__ void take(A x) {
    if (x > max) {
      sum = sum * std::exp(max - x) + 1;
      max = x;
    } else {
      sum += std::exp(x - max);
    }
  }
};

struct JoinExps {
  // Scales the sum with the smaller maximum, so that (a, b) and (b, a) have the same bits.
  template <class A> __device__ Exps<A> operator()(Exps<A> a, Exps<A> b) const {
    const Exps<A>&high = a.max < b.max ? b : a, &low = a.max < b.max ? a : b;
    return {high.max, high.sum + low.sum * std::exp(low.max - high.max)};
  }
};

}  // namespace bellows
