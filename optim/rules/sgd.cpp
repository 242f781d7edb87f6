// Stochastic gradient descent, as torch.optim.SGD with dampening 0:
//   d = g + weight_decay w
//   v = momentum v + d,  d = v, or with nesterov  d = d + momentum v
//   w = w - lr d
#include "optim/elementwise.h"

namespace bellows {

struct SgdOptions {
  double lr = 0.1, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
inline void visit(Visitor& v, SgdOptions& o) {
  v("lr", o.lr, "peak learning rate", {.min = 0})
      .forgets(Forget::rate)
      .also({"base_lr", "learning_rate"});
  v("momentum", o.momentum, "share of the last direction that is kept", {.min = 0, .max = 1});
  v("nesterov", o.nesterov, "look ahead: the gradient plus the momentum after it");
  v("weight_decay", o.weight_decay, "L2 penalty, added to the gradient", {.min = 0})
      .also({"l2_decay", "wd"});
}

template <class T> class Sgd : public Elementwise<T> {
 public:
  using Options = SgdOptions;
  static constexpr const char* name = "sgd";
  static UpdateRule rule(const SgdOptions& o) {
    CHECK(!o.nesterov || o.momentum > 0, "optimizer: nesterov needs momentum > 0, e.g. 0.9");
    return {.lr = o.lr, .buffers = o.momentum ? Names{"momentum"} : Names{}};
  }
  template <class Fn> static void with_own_passes(const SgdOptions& o, const Fn& fn) {
    if (o.momentum == 0) return fn(PassList<step>());
    o.nesterov ? fn(PassList<nesterov, step>()) : fn(PassList<momentum, step>());
  }

  HD Sgd(const SgdOptions& o, const StepValues& now)
      : Elementwise<T>(o, now), lr_(T(now.lr)), momentum_(T(o.momentum)) {}

  static HD void momentum(const Sgd& k, const Element<T>& e) {
    e.d = e.buffer(0) = std::fma(k.momentum_, e.buffer(0), e.d);
  }
  static HD void nesterov(const Sgd& k, const Element<T>& e) {
    const T v = e.buffer(0) = std::fma(k.momentum_, e.buffer(0), e.d);
    e.d = std::fma(k.momentum_, v, e.d);
  }
  static HD void step(const Sgd& k, const Element<T>& e) { e.w() = std::fma(-k.lr_, e.d, e.w()); }

 private:
  T lr_, momentum_;
};

static const AddRule<Sgd, SgdOptions, Decay::l2> sgd("sgd", "stochastic gradient descent");

}  // namespace bellows
