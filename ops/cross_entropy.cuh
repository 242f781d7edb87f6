// Cross-entropy of one row of logits and its gradient, for every kernel that computes them.
#pragma once
#include "core/tensor/line.cuh"
#include "ops/cross_entropy.h"
#include "ops/exps.cuh"

namespace bellows {

struct Targets {
  const int64_t* labels;
  int64_t step, classes;
  double smoothing;
  __device__ int64_t label(int64_t n) const { return labels[n * step]; }
  __device__ bool counts(int64_t n) const { return label(n) != kLeftOut; }
  __device__ bool valid(int64_t label) const { return label >= 0 && label < classes; }
};
inline Targets targets_of(const Tensor& target, int64_t classes, double smoothing) {
  return {target.ptr<int64_t>(), target.strides()[0], classes, smoothing};
}

// log_sum - (1 - s) * (x[label] - max) - s * (mean(x) - max). log_sum: log(sum(exp(x - max))).
template <class T>
__device__ double loss_of(const T* x, double max, double log_sum, double sum, int64_t label,
                          const Targets& t) {
  if (!t.valid(label)) return NAN;
  const double loss = log_sum - (1 - t.smoothing) * (Acc<T>(x[label]) - max);
  return t.smoothing > 0 ? loss - t.smoothing * (sum / t.classes - max) : loss;
}

// Returns the loss of row n, whose logits are x, on rank 0 of the team, which writes row n of lse;
// 0 on other ranks. A row that is left out is not read, and its lse is not written. scratch: shared
// memory for one Exps<double> per warp, if the team is a block.
template <class T>
__device__ double loss_of_row(const T* x, int64_t n, const Targets& targets, Team team,
                              Exps<double>* scratch, Acc<T>* lse) {
  using A = Acc<T>;
  if (!targets.counts(n)) return 0;
  Exps<A> exps = Exps<A>::nothing();
  A sum = 0;
  const auto take = [&](int64_t, A value) {
    exps.take(value);
    sum += value;
  };
  for_line<T>(targets.classes, team, take, x);
  exps = team.fold(exps, Exps<A>::nothing(), JoinExps(), reinterpret_cast<Exps<A>*>(scratch));
  sum = team.fold(sum, A(0), Plus(), reinterpret_cast<A*>(scratch));
  if (team.rank() != 0) return 0;
  const A log_sum = std::log(exps.sum);
  lse[2 * n] = exps.max;
  lse[2 * n + 1] = log_sum;
  return loss_of(x, exps.max, log_sum, sum, targets.label(n), targets);
}

// Gradient of the logits of one row: (softmax(x) - q) * dy / divisor, or 0 if it is left out
template <class A> struct SlopeOfRow {
  int64_t label = kLeftOut;
  A scale = 0, own = 0, even = 0, max = 0, log_sum = 0;

  __device__ A operator()(int64_t c, A x) const {
    if (label == kLeftOut) return 0;
    return (std::exp(x - max - log_sum) - even - (c == label ? own : A(0))) * scale;
  }
};
template <class A>
__device__ SlopeOfRow<A> slope_of_row(A dy, int64_t n, double divisor, const A* lse,
                                      const Targets& t) {
  const int64_t label = t.label(n);
  if (!t.counts(n)) return {};
  return {label,
          t.valid(label) ? dy / A(divisor) : A(NAN),
          A(1 - t.smoothing),
          A(t.smoothing / t.classes),
          lse[2 * n],
          lse[2 * n + 1]};
}

}  // namespace bellows
