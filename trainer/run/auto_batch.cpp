#include <fmt/format.h>
#include <algorithm>
#include "core/device/allocator.h"
#include "plan/toggle.h"
#include "trainer/log/log.h"
#include "trainer/run/run.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"
#include "trainer/state/training_state.h"

namespace bellows {

static constexpr int64_t kFirstBatch = 16;
static constexpr double kWorthwhile = 1.05;

BatchChoice grow_batch(int64_t samples, int64_t bytes,
                       const std::function<BatchTrial(int64_t)>& try_out) {
  BatchChoice choice{std::min(kFirstBatch, samples), "samples/s of forward and backward: "};
  BatchTrial trial = try_out(choice.batch);
  for (;; choice.batch *= 2) {
    choice.reason += fmt::format("{}: {:.0f}, ", choice.batch, trial.samples_per_s);
    const int64_t next = 2 * choice.batch;
    const auto stop = [&](const std::string& why) {
      return BatchChoice{choice.batch, choice.reason + why};
    };
    if (next > samples) return stop("and the training set has fewer than twice as many");
    // Twice the peak leaves a reserve, because parameters do not grow with the batch.
    if (2 * trial.peak_bytes > bytes)
      return stop(fmt::format("{} may need more than {} MiB", next, bytes >> 20));
    BatchTrial larger;
    try {
      larger = try_out(next);
    } catch (const Error& error) {
      if (error.exit != Exit::memory) throw;
      return stop(fmt::format("{} does not fit into memory", next));
    }
    if (larger.samples_per_s < kWorthwhile * trial.samples_per_s)
      return stop(fmt::format("{}: {:.0f}", next, larger.samples_per_s));
    trial = larger;
  }
}

static BatchTrial try_out(Session& session, int64_t batch) {
  reset_peak(session.device);
  const double s = time_dry_run(session, batch);
  return {static_cast<double>(batch) / s, allocator_stats(session.device).peak_allocated};
}

static BatchChoice choose_batch(Plan plan) {
  plan.data.loader.sampler.batch_size = kFirstBatch;
  plan.data.loader.sampler.drop_last = false;  // a trial reads no batch from the loader
  if (plan.kernels.autotune == Autotune::benchmark) plan.kernels.autotune = Autotune::found;
  Session session(plan);
  const auto bytes = static_cast<int64_t>(api_of(session.device).available() / 5 * 4);
  const BatchChoice choice = grow_batch(session.train_set->size(), bytes,
                                        [&](int64_t batch) { return try_out(session, batch); });
  empty_cache(session.device);
  reset_peak(session.device);
  return choice;
}

void settle_batch_size(Config& config, const std::optional<Loaded>& saved,
                       std::vector<std::string>& notes) {
  int64_t& batch = config.plan.data.loader.sampler.batch_size;
  if (batch != kAutoBatch) return;
  if (saved) {
    batch = read_plan(saved->content).data.loader.sampler.batch_size;
  } else {
    CHECK(this_rank(config.plan.dist).world == 1,
          "data.batch_size: auto tries sizes in one process; write a number for several ranks");
    print_line(config.plan.log.format, "data.batch_size: auto, trying sizes");
    const BatchChoice choice = choose_batch(config.plan);
    batch = choice.batch;
    notes.push_back(cat("data.batch_size: auto -> ", choice.batch, " (", choice.reason, ")"));
  }
  config.options.data.loader.sampler.batch_size = batch;
}

}  // namespace bellows
