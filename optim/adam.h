// Adam and AdamW, as in torch.optim, without amsgrad. t is the number of applied updates:
//   adam:   d = g + weight_decay w      adamw:  d = g,  w = w - lr weight_decay w
//   m = m + (1 - beta1) (d - m)
//   s = beta2 s + (1 - beta2) d d
//   w = w - lr / (1 - beta1^t) m / (sqrt(s) / sqrt(1 - beta2^t) + eps)
// All weights share t, even those without a gradient in some updates; in PyTorch each has its own.
#pragma once
#include <cmath>
#include "core/tensor/kernel.h"
#include "optim/rule.h"

namespace bellows {

class Visitor;

struct AdamOptions {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
void visit(Visitor& v, AdamOptions& o);
// The same options, with AdamW's default weight decay.
struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 0.01; }
};

// l2: weight decay is added to the gradient. decoupled: it is applied to the weight.
enum class Decay { l2, decoupled };
UpdateRule adam_rule(const AdamOptions& o, Decay decay);

template <class T> struct Adam {
  enum : unsigned { copy = 1, scale = 2, sum = 4, decay = 8, mean = 16, square = 32, step = 64 };
  static constexpr unsigned moments = mean | square | step;
  using Sets = std::integer_sequence<unsigned, copy, scale, sum, decay, mean, square, step,  //
                                     copy | moments, scale | sum | moments, copy | decay | moments>;

  HD Adam(const AdamOptions& o, const StepValues& now)
      : grad_scale_(T(now.scale)),
        decay_(T(o.weight_decay)),
        shrink_(T(now.lr * o.weight_decay)),
        rate1_(T(1 - o.beta1)),
        beta2_(T(o.beta2)),
        rate2_(T(1 - o.beta2)),
        step_(T(now.lr / (1 - std::pow(o.beta1, double(now.update))))),
        correction_(T(1 / std::sqrt(1 - std::pow(o.beta2, double(now.update))))),
        eps_(T(o.eps)) {}

  template <unsigned passes> HD void run(const Row<T>& row, int64_t i, T& d) const {
    T& w = row.w[i];
    if constexpr (passes & copy) d = grad_scale_ * row.g[i];
    if constexpr (passes & scale) d = decay_ * w;
    if constexpr (passes & sum) d = std::fma(grad_scale_, row.g[i], d);
    if constexpr (passes & decay) w = std::fma(-shrink_, w, w);
    if constexpr (passes & (mean | square | step)) {
      T &m = row.buffer[0][i], &s = row.buffer[1][i];
      if constexpr (passes & mean) m = std::fma(rate1_, d - m, m);
      if constexpr (passes & square) s = std::fma(rate2_ * d, d, beta2_ * s);
      if constexpr (passes & step)
        w = std::fma(-step_, m / std::fma(std::sqrt(s), correction_, eps_), w);
    }
  }

 private:
  T grad_scale_, decay_, shrink_, rate1_, beta2_, rate2_, step_, correction_, eps_;
};

namespace kernels {
// Runs the passes `u.passes` of the rule over the weights.
inline constinit Kernel<void(TensorSpan weights, const Launch& u, const AdamOptions& o)> adam{
    "adam"};
}  // namespace kernels
}  // namespace bellows
