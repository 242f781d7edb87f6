// Adam and AdamW, as in torch.optim, without amsgrad. t is the number of applied updates:
//   adam:   d = g + weight_decay w      adamw:  d = g,  w = w - lr weight_decay w
//   m = m + (1 - beta1) (d - m)
//   s = beta2 s + (1 - beta2) d d
//   w = w - lr / (1 - beta1^t) m / (sqrt(s) / sqrt(1 - beta2^t) + eps)
// All weights share t, even those without a gradient in some updates; in PyTorch each has its own.
#include "optim/elementwise.h"

namespace bellows {

struct AdamOptions {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
// The same options, with AdamW's default weight decay.
struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 0.01; }
};
inline void visit(Visitor& v, AdamOptions& o) {
  v("lr", o.lr, "peak learning rate", {.min = 0});
  v("beta1", o.beta1, "decay of the mean of the gradients", {.min = 0, .max = 0.999999});
  v("beta2", o.beta2, "decay of the mean of their squares", {.min = 0, .max = 0.999999});
  v("eps", o.eps, "keeps the denominator from zero", {.min = 0});
  v("weight_decay", o.weight_decay, "adam: L2 penalty in the gradient; adamw: share of the weight",
    {.min = 0});
}

template <class T> struct Adam {
  using Options = AdamOptions;
  static constexpr const char* name = "adam";
  enum : unsigned { mean = own_pass(0), square = own_pass(1), step = own_pass(2) };
  using Sets = std::integer_sequence<unsigned, mean | square | step>;

  static UpdateRule rule(const AdamOptions& o) {
    return {.lr = o.lr,
            .buffers = {"exp_avg", "exp_avg_sq"},  // PyTorch's names
            .passes = {mean, square, step}};
  }

  HD Adam(const AdamOptions& o, const StepValues& now)
      : rate1_(T(1 - o.beta1)),
        beta2_(T(o.beta2)),
        rate2_(T(1 - o.beta2)),
        step_(T(now.lr / (1 - std::pow(o.beta1, double(now.update))))),
        correction_(T(1 / std::sqrt(1 - std::pow(o.beta2, double(now.update))))),
        eps_(T(o.eps)) {}

  template <unsigned passes> HD void run(const Row<T>& row, int64_t i, T& d) const {
    T &w = row.w[i], &m = row.buffer[0][i], &s = row.buffer[1][i];
    if constexpr (passes & mean) m = std::fma(rate1_, d - m, m);
    if constexpr (passes & square) s = std::fma(rate2_ * d, d, beta2_ * s);
    if constexpr (passes & step)
      w = std::fma(-step_, m / std::fma(std::sqrt(s), correction_, eps_), w);
  }

 private:
  T rate1_, beta2_, rate2_, step_, correction_, eps_;
};

static const AddRule<Adam, AdamOptions, Decay::l2> adam("adam", "adaptive moments, L2 penalty");
static const AddRule<Adam, AdamWOptions, Decay::decoupled> adamw(
    "adamw", "Adam with decoupled weight decay");

}  // namespace bellows
