#include "labs/plan/forecast.h"
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include "autograd/backward.h"
#include "core/base/round.h"
#include "core/base/statistics.h"
#include "core/device/timer.h"
#include "labs/bench/step.h"

namespace bellows {

double all_reduce_s(double bytes, int64_t ranks, const Network& network) {
  if (ranks == 1) return 0;
  const int64_t nodes = ceil_div(ranks, network.ranks_per_node);
  const int64_t local = std::min(ranks, network.ranks_per_node);
  const double slowest =
      std::min(nodes > 1 ? network.between.bytes_per_s : std::numeric_limits<double>::infinity(),
               local > 1 ? network.inside.bytes_per_s : std::numeric_limits<double>::infinity());
  const auto time = [&](int64_t between, int64_t inside, double sent) {
    return double(between) * network.between.latency_s + double(inside) * network.inside.latency_s +
           sent / slowest;
  };
  const auto depth = int64_t(std::bit_width(uint64_t(nodes - 1)));  // ceil(log2(nodes))
  const double ring = time(2 * (nodes - 1), 2 * (ranks - nodes),
                           2 * double(ranks - 1) / double(ranks) * bytes),
               tree = time(2 * depth, 2 * (local - 1), 2 * bytes);
  return network.algorithm == ReduceAlgorithm::ring   ? ring
         : network.algorithm == ReduceAlgorithm::tree ? tree
                                                      : std::min(ring, tree);
}

Forecast forecast(const ComputeProfile& profile, const DistOptions& options, int64_t ranks,
                  const Network& network) {
  Forecast all;
  all.step_s = profile.step_s;
  if (profile.gradients.empty() || ranks == 1) return all;
  std::vector<GradientSize> sizes;
  for (const GradientTime& gradient : profile.gradients) sizes.push_back(gradient.size);
  const double backward_end = profile.gradients.back().ready_s;
  double free = 0;  // end of the previous collective
  for (const BucketPlan& bucket : plan_buckets(sizes, options)) {
    const bool halved = options.compress && bucket.dtype == DType::f32;
    const double took = all_reduce_s(double(bucket.bytes()) / (halved ? 2 : 1), ranks, network);
    const double ready =
        options.overlap ? profile.gradients[bucket.gradients.back()].ready_s : backward_end;
    const double begin = std::max(ready, free);
    free = begin + took;
    all.buckets.push_back({ready, begin, free});
    all.communication_s += took;
  }
  all.exposed_s = std::max(0.0, free - backward_end);
  all.step_s += all.exposed_s;
  return all;
}

double ComputeProfile::bytes() const {
  double bytes = 0;
  for (const auto& [size, ready_s] : gradients)
    bytes += double(size.numel) * double(size_of(size.dtype));
  return bytes;
}

std::vector<double> bucket_ladder(const ComputeProfile& profile) {
  const double bytes = profile.bytes();
  std::vector<double> ladder = {1.0 / 64};
  while (ladder.back() * (1 << 20) < bytes) ladder.push_back(2 * ladder.back());
  return ladder;
}

double best_bucket_mb(const ComputeProfile& profile, DistOptions options, int64_t ranks,
                      const Network& network) {
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (const double mb : bucket_ladder(profile)) {
    options.bucket_mb = mb;
    const double step = forecast(profile, options, ranks, network).step_s;
    if (step <= least) best = mb, least = step;
  }
  return best;
}

int64_t overlap_ends(const ComputeProfile& profile, const DistOptions& options, int64_t most,
                     const Network& network) {
  for (int64_t ranks = 2; ranks <= most; ++ranks)
    if (forecast(profile, options, ranks, network).queued()) return ranks;
  return 0;
}

// ---- the profile of one rank

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
