#include "autograd/recompute.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/foreach.h"
#include "core/trace.h"

namespace bellows {

bool& replaying() {
  static constinit thread_local bool on = false;
  return on;
}

namespace {
class Replay {
 public:
  Replay()
      : tracked_(std::exchange(grad_mode(), true)), inside_(std::exchange(replaying(), true)) {}
  ~Replay() {
    grad_mode() = tracked_;
    replaying() = inside_;
  }
  Replay(Replay&&) = delete;

 private:
  bool tracked_, inside_;
};
}  // namespace

// x, whose gradient goes to dx as it comes: a leaf would copy it into row-major order.
static Tensor watched(const Tensor& x, Tensor& dx) {
  return record("recompute", x, {require_grad(full({}, 0))}, [&dx](const Tensor& dy) {
    dx = dy;
    return Grads(1);
  });
}

// A scalar whose gradient with respect to y is dy.
static Tensor root_of(const Tensor& y, const Tensor& dy) {
  return record("recompute", full({}, 0, y), {y}, [dy](const Tensor&) { return Grads{dy}; });
}

Tensor recompute(const std::function<Tensor(const Tensor& x)>& fn, const Tensor& x,
                 std::span<const Tensor> parameters) {
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  if (!will_record(std::span<const Tensor>(inputs))) return fn(x);
  const Tensor y = [&] {
    const NoGrad untracked;
    return fn(x.detach());
  }();
  // Parameters collect their gradients in the second pass; to the first one they send nothing.
  return record("recompute", y, std::span<const Tensor>(inputs),
                [fn, x = Saved(x.detach()), wanted = needs_grad(x), low = autocast(),
                 n = inputs.size()](const Tensor& dy) {
                  static trace::Counter& replays = trace::counter("recompute.replays");
                  replays.add();
                  const Replay replay;
                  const Autocast precision(low);
                  Grads grads(n);
                  const Tensor out = fn(wanted ? watched(x(), grads[0]) : x());
                  backward(root_of(out, dy));
                  return grads;
                });
}

}  // namespace bellows
