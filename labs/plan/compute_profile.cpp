#include <algorithm>
#include <optional>
#include "autograd/backward.h"
#include "core/base/statistics.h"
#include "core/device/timer.h"
#include "labs/bench/step.h"
#include "labs/plan/forecast.h"

namespace bellows {

ComputeProfile measure_profile(Plan plan, int64_t updates) {
  check_alone("plan", plan.dist);
  plan.train.cuda_graph = false;  // a replay calls no hooks
  RepeatedStep train(plan);
  const Session& session = train.session();
  const Stream stream = current_stream(session.device);
  const size_t n = session.parameters.size();
  std::vector<std::optional<Moment>> ready(n);
  for (size_t i = 0; i < n; ++i)
    on_grad_ready(session.parameters[i].tensor,
                  [&, i](const Tensor&) { ready[i].emplace(stream); });

  const int64_t warmup = session.tuning.warm_up();
  std::vector<std::vector<double>> ready_s(n);
  std::vector<double> step_s;
  for (int64_t k = 0; k < warmup + updates; ++k) {
    for (std::optional<Moment>& moment : ready) moment.reset();
    const Moment begin(stream);
    train();
    const Moment end(stream);
    synchronize(stream);
    if (k < warmup) continue;
    step_s.push_back(1e-3 * end.ms_since(begin));
    for (size_t i = 0; i < n; ++i)
      if (ready[i]) ready_s[i].push_back(1e-3 * ready[i]->ms_since(begin));
  }
  for (const NamedTensor& p : session.parameters) on_grad_ready(p.tensor, nullptr);

  ComputeProfile profile{.gradients = {}, .step_s = median(step_s)};
  double backward_end = 0;
  for (size_t i = 0; i < n; ++i) {
    const Tensor& leaf = session.parameters[i].tensor;
    const double at = ready_s[i].empty() ? -1 : median(ready_s[i]);
    backward_end = std::max(backward_end, at);
    profile.gradients.push_back({{leaf.numel(), leaf.dtype()}, at});
  }
  for (GradientTime& gradient : profile.gradients)
    if (gradient.ready_s < 0) gradient.ready_s = backward_end;
  std::ranges::stable_sort(profile.gradients, {}, &GradientTime::ready_s);
  return profile;
}

}  // namespace bellows
