#include "autograd/recompute.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"

namespace bellows {

namespace {

using Draws = std::vector<Saved>;

// State of the innermost segment that this thread runs.
struct Pass {
  Draws* keeps = nullptr;        // first run: records the draws here
  const Draws* finds = nullptr;  // replay: draws of the first run
  size_t found = 0;              // replay: number of draws used so far
};
Pass& pass() {
  static constinit thread_local Pass current;
  return current;
}

}  // namespace

bool replaying() { return pass().finds; }

Tensor drawn(const std::function<Tensor()>& draw) {
  Pass& now = pass();
  CHECK(!now.finds || now.found < now.finds->size(), "recompute: a segment draws ",
        now.finds->size(), " times, and more often when it runs again");
  const Tensor t = now.finds ? (*now.finds)[now.found++]() : draw();
  if (now.keeps) now.keeps->push_back(Saved(t));
  return t;
}

// Records x so that its gradient goes to dx with any strides. A leaf would copy the gradient to its
// own strides.
static Tensor watched(const Tensor& x, Tensor& dx) {
  return record("recompute", x, {require_grad(full({}, 0))}, [&dx](const Tensor& dy) {
    dx = dy;
    return Grads(1);
  });
}

// Returns a scalar whose gradient with respect to y is dy: the root of the inner backward pass.
static Tensor root_with_grad(const Tensor& y, const Tensor& dy) {
  return record("recompute", full({}, 0, y), {y}, [dy](const Tensor&) { return Grads{dy}; });
}

// The inner backward pass finishes the segment's leaves and resets their counts, so contributions
// that the outer pass has for them would be lost.
static void refuse_outer_shares(const std::vector<Saved>& parameters) {
  for (const Saved& p : parameters) {
    const GradMeta* const leaf = grad_meta(p());
    CHECK(!leaf || (leaf->shares == 1 && !leaf->dy.defined()), "recompute: a parameter of shape ",
          p().shape(), " is read outside of its segment, too, and would lose that share");
  }
}

Tensor recompute(const std::function<Tensor(const Tensor& x)>& fn, const Tensor& x,
                 std::span<const Tensor> parameters) {
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  if (!will_record(std::span<const Tensor>(inputs))) return fn(x);
  Draws draws;
  const Tensor y = [&] {
    const Scoped first(pass().keeps, &draws);
    const NoGrad untracked;
    return fn(x.detach());
  }();
  // Parameters are inputs of this node, but receive their gradients in the inner backward pass; the
  // outer one receives undefined gradients for them.
  return record(
      "recompute", y, std::span<const Tensor>(inputs),
      [fn, x = Saved(x.detach()), leaves = std::vector<Saved>(parameters.begin(), parameters.end()),
       draws = std::move(draws), wanted = needs_grad(x), low = autocast(),
       n = inputs.size()](const Tensor& dy) {
        trace::count<"recompute.replays">();
        refuse_outer_shares(leaves);
        const Scoped replay(pass(), {.finds = &draws});
        const Scoped tracked(grad_mode(), true);
        const Autocast precision(low);
        Grads grads(n);
        const Tensor out = fn(wanted ? watched(x(), grads[0]) : x());
        backward(root_with_grad(out, dy));
        return grads;
      });
}

}  // namespace bellows
