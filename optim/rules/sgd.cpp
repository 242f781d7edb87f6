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
  v("lr", o.lr, "peak learning rate", {.min = 0});
  v("momentum", o.momentum, "share of the last direction that is kept", {.min = 0, .max = 1});
  v("nesterov", o.nesterov, "look ahead: the gradient plus the momentum after it");
  v("weight_decay", o.weight_decay, "L2 penalty, added to the gradient", {.min = 0});
}

template <class T> struct Sgd {
  using Options = SgdOptions;
  static constexpr const char* name = "sgd";
  enum : unsigned { momentum = own_pass(0), nesterov = own_pass(1), step = own_pass(2) };
  using Sets = std::integer_sequence<unsigned, step, momentum | step, nesterov | step>;

  static UpdateRule rule(const SgdOptions& o) {
    CHECK(!o.nesterov || o.momentum > 0, "optimizer: nesterov needs momentum > 0, e.g. 0.9");
    if (o.momentum == 0) return {.lr = o.lr, .buffers = {}, .passes = {step}};
    return {
        .lr = o.lr, .buffers = {"momentum"}, .passes = {o.nesterov ? nesterov : momentum, step}};
  }

  HD Sgd(const SgdOptions& o, const StepValues& now) : lr_(T(now.lr)), momentum_(T(o.momentum)) {}

  template <unsigned passes> HD void run(const Row<T>& row, int64_t i, T& d) const {
    if constexpr (passes & (momentum | nesterov)) {
      T& v = row.buffer[0][i];
      v = std::fma(momentum_, v, d);
      d = passes & nesterov ? std::fma(momentum_, v, d) : v;
    }
    if constexpr (passes & step) row.w[i] = std::fma(-lr_, d, row.w[i]);
  }

 private:
  T lr_, momentum_;
};

static const AddRule<Sgd, SgdOptions, Decay::l2> sgd("sgd", "stochastic gradient descent");

}  // namespace bellows
