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
// Adam's options, with AdamW's default weight decay.
struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 0.01; }
};
inline void visit(Visitor& v, AdamOptions& o) {
  v("lr", o.lr, "peak learning rate", {.min = 0})
      .forgets(Forget::rate)
      .also({"base_lr", "learning_rate"});
  v("beta1", o.beta1, "decay of the mean of the gradients", {.min = 0, .max = 0.999999})
      .also({"betas"});
  v("beta2", o.beta2, "decay of the mean of their squares", {.min = 0, .max = 0.999999});
  v("eps", o.eps, "keeps the denominator from zero", {.min = 0});
  v("weight_decay", o.weight_decay, "adam: L2 penalty in the gradient; adamw: share of the weight",
    {.min = 0})
      .also({"l2_decay", "wd"});
}

template <class T> class Adam : public Elementwise<T> {
 public:
  using Options = AdamOptions;
  static constexpr const char* name = "adam";
  static UpdateRule rule(const AdamOptions& o) {
    return {.lr = o.lr, .buffers = {"exp_avg", "exp_avg_sq"}};  // PyTorch's names
  }
  template <class Fn> static void with_own_passes(const AdamOptions&, const Fn& fn) {
    fn(PassList<mean, square, step>());
  }

  HD Adam(const AdamOptions& o, const StepValues& now)
      : Elementwise<T>(o, now),
        rate1_(T(1 - o.beta1)),
        beta2_(T(o.beta2)),
        rate2_(T(1 - o.beta2)),
        step_(T(now.lr / (1 - std::pow(o.beta1, double(now.update))))),
        correction_(T(1 / std::sqrt(1 - std::pow(o.beta2, double(now.update))))),
        eps_(T(o.eps)) {}

  static HD void mean(const Adam& k, const Element<T>& e) {
    e.buffer(0) = std::fma(k.rate1_, e.d - e.buffer(0), e.buffer(0));
  }
  static HD void square(const Adam& k, const Element<T>& e) {
    e.buffer(1) = std::fma(k.rate2_ * e.d, e.d, k.beta2_ * e.buffer(1));
  }
  static HD void step(const Adam& k, const Element<T>& e) {
    const T divisor = std::fma(std::sqrt(e.buffer(1)), k.correction_, k.eps_);
    e.w() = std::fma(-k.step_, e.buffer(0) / divisor, e.w());
  }

 private:
  T rate1_, beta2_, rate2_, step_, correction_, eps_;
};

static const AddRule<Adam, AdamOptions, Decay::l2> adam("adam", "adaptive moments, L2 penalty");
static const AddRule<Adam, AdamWOptions, Decay::decoupled> adamw(
    "adamw", "Adam with decoupled weight decay");

}  // namespace bellows
