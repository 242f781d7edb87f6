// Stochastic gradient descent, as torch.optim.SGD with dampening 0:
//   d = g + weight_decay w
//   v = momentum v + d,  d = v, or with nesterov  d = d + momentum v
//   w = w - lr d
#pragma once
#include <cmath>
#include "core/tensor/kernel.h"
#include "optim/rule.h"

namespace bellows {

class Visitor;

struct SgdOptions {
  double lr = 0.1, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
void visit(Visitor& v, SgdOptions& o);

template <class T> struct Sgd {
  // Passes. Weight decay takes two (scale, sum), as in frameworks that add it to the graph.
  enum : unsigned { copy = 1, scale = 2, sum = 4, momentum = 8, nesterov = 16, step = 32 };
  using Sets = std::integer_sequence<unsigned, copy, scale, sum, momentum, nesterov, step,  //
                                     copy | step, copy | momentum | step, copy | nesterov | step,
                                     scale | sum | step, scale | sum | momentum | step,
                                     scale | sum | nesterov | step>;

  HD Sgd(const SgdOptions& o, const StepValues& now)
      : lr_(T(now.lr)),
        grad_scale_(T(now.scale)),
        momentum_(T(o.momentum)),
        decay_(T(o.weight_decay)) {}

  template <unsigned passes> HD void run(const Row<T>& row, int64_t i, T& d) const {
    T& w = row.w[i];
    if constexpr (passes & copy) d = grad_scale_ * row.g[i];
    if constexpr (passes & scale) d = decay_ * w;
    if constexpr (passes & sum) d = std::fma(grad_scale_, row.g[i], d);
    if constexpr (passes & (momentum | nesterov)) {
      T& v = row.buffer[0][i];
      v = std::fma(momentum_, v, d);
      d = passes & nesterov ? std::fma(momentum_, v, d) : v;
    }
    if constexpr (passes & step) w = std::fma(-lr_, d, w);
  }

 private:
  T lr_, grad_scale_, momentum_, decay_;
};

namespace kernels {
// Runs the passes `u.passes` of the rule over the weights.
inline constinit Kernel<void(TensorSpan weights, const Launch& u, const SgdOptions& o)> sgd{"sgd"};
}  // namespace kernels
}  // namespace bellows
