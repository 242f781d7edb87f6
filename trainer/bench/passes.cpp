#include "trainer/bench/passes.h"
#include <algorithm>
#include "autograd/backward.h"

namespace bellows {

FirstUpdate::FirstUpdate(const Plan& plan)
    : session(plan), use_(session.kernels()), precision_(plan.amp.low()) {
  check_alone("bench", plan.dist);
  session.model->train(true);
  session.feed->start(0);
  CHECK(session.feed->next(batch), "bench: the training set has no batch");
}

void Passes::run() const {
  backward(forward());
  zero_grad(leaves, true);
}

Tensor scalar_of(const Tensor& y, const Tensor& dy) {
  return record("scalar", full({}, 0, DType::f32, y.device()), {y},
                [dy](const Tensor&) { return Grads{dy}; });
}

Passes passes_of(const std::string& name, Module& module, const Tensor& x) {
  const Tensor in = needs_grad(x) ? require_grad(x.detach()) : x;
  const Tensor y = module(in).detach(), dy = full(y.shape(), 1, y);
  const auto forward = [&module, in, dy] { return scalar_of(module(in), dy); };
  Tensors leaves;
  for (const NamedTensor& parameter : module.parameters()) leaves.push_back(parameter.tensor);
  if (needs_grad(in)) leaves.push_back(in);
  return {name, forward, leaves};
}

// Backward alone cannot be repeated on every graph, so its time is that of both passes less that of
// the forward pass.
void measure(std::vector<Passes>& parts, Device device) {
  std::vector<std::function<void()>> calls;
  for (const Passes& part : parts) {
    calls.emplace_back(part.forward);
    calls.emplace_back([&part] { part.run(); });
  }
  const std::vector<Timing> times = time_interleaved(calls, device);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].forward_s = times[2 * i].median();
    parts[i].backward_s = std::max(0.0, times[2 * i + 1].median() - parts[i].forward_s);
  }
}

}  // namespace bellows
