#include "trainer/session/planted_load.h"
#include <fmt/format.h>
#include "core/base/trace.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

void settle_planted_load(Plan& plan) {
  if (plan.sim.compute != kAutoCompute) return;
  CHECK(this_rank(plan.dist).world == 1,
        "sim.compute: auto measures an update of one process; write a number for several ranks");
  Plan trial = plan;
  trial.sim = {};
  if (trial.kernels.autotune == Autotune::benchmark) trial.kernels.autotune = Autotune::found;
  Session session(trial);
  const double update_s = time_dry_run(session, trial.data.loader.sampler.batch_size);
  constexpr double kLeastMs = 10;  // a busy machine takes a core away for some milliseconds
  plan.sim.compute = 1000 * int64_t(std::ceil(std::max(kLeastMs, 2e3 * update_s)));
}

int64_t planted_latency_us(const Plan& plan) {
  const double us = plan.sim.load * double(std::max<int64_t>(plan.sim.compute, 0));
  return us > 0 ? std::llround(us) : plan.data.loader.batch.sim_latency_us;
}

std::string planted_load(const Plan& plan) {
  Names parts;
  const BatchOptions& batch = plan.data.loader.batch;
  if (plan.sim.compute > 0)
    parts.push_back(
        fmt::format("an update computes for {:g} ms at least", 1e-3 * double(plan.sim.compute)));
  if (const int64_t us = planted_latency_us(plan)) {
    parts.push_back(fmt::format("loading a batch takes {:g} ms", 1e-3 * double(us)));
    if (plan.sim.load > 0) parts.back() += fmt::format(", {:g} times as long", plan.sim.load);
    if (batch.sim_jitter != Jitter::none)
      parts.push_back(
          cat("with jitter, ", batch.sim_jitter == Jitter::uniform ? "uniform" : "exponential"));
    if (!batch.sim_slow.empty())
      parts.push_back(fmt::format("{:g} % of the batches take {:g} times as long",
                                  100 * batch.sim_slow[0], batch.sim_slow[1]));
  }
  return parts.empty() ? "" : cat("planted load: ", joined(parts));
}

void compute_until(const SimOptions& sim, int64_t begin_ns) {
  if (sim.compute <= 0) return;
  const trace::Range phase("backward"), op("sim_compute");
  trace::count<"sim.updates">();
  while (trace::now_ns() < begin_ns + 1000 * sim.compute) {
  }
}

}  // namespace bellows
