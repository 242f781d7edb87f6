#include <time.h>
#include <algorithm>
#include <deque>
#include "bench/step/step.h"
#include "core/base/trace.h"
#include "core/device/sync_guard.h"
#include "core/device/timer.h"

namespace bellows {

static Batch only_batch(Session& session) {
  Batch batch;
  session.feed->start(0);
  INVARIANT(session.feed->next(batch), "an epoch of noise is one batch");
  return batch;
}

NoiseStep::NoiseStep(const Plan& plan)
    : session_(plan),
      train_on_(session_),
      update_(only_batch(session_), session_.plan.train.accumulate) {
  train_on_.prepare();
  session_.model->train(true);
}

void NoiseStep::operator()() {
  const SyncGuard guard(session_.plan.debug.sync_guard);
  losses_ = train_on_(update_);
}

Tensor NoiseStep::forward() { return session_.loss_of(update_.whole()); }

double NoiseStep::loss() const {
  double sum = 0;
  for (auto part = update_.begin(); const Tensor& loss : losses_)
    sum += (part++)->share * loss.item();
  return sum;
}

// ---- clocks

static double cpu_ms() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}
static double wall_ms() { return double(trace::now_ns()) * 1e-6; }

static Counts moved_since(const Counts& before) {
  Counts moved = trace::counters();
  for (const auto& [name, value] : before) moved[name] -= value;
  std::erase_if(moved, [](const auto& counter) { return counter.second == 0; });
  return moved;
}

Times time_steps(NoiseStep& step, int64_t steps, double seconds) {
  const Stream stream = current_stream(step.device());
  Times times;
  std::deque<Moment> passed;  // deque: a Moment cannot be moved
  synchronize(stream);
  const Counts before = trace::counters();
  const double begin = wall_ms();
  passed.emplace_back(stream);
  while (int64_t(passed.size()) <= steps || wall_ms() - begin < seconds * 1e3) {
    const double cpu = cpu_ms();
    step();
    passed.emplace_back(stream);
    times.cpu_ms.push_back(cpu_ms() - cpu);
  }
  times.moved = moved_since(before);
  synchronize(stream);
  times.wall_ms = wall_ms() - begin;
  for (size_t i = 1; i < passed.size(); ++i) times.ms.push_back(passed[i].ms_since(passed[i - 1]));
  return times;
}

double quantile(std::vector<double>& values, double q) {
  const auto at = values.begin() + int64_t(q * double(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

}  // namespace bellows
