#include <deque>
#include "core/base/trace.h"
#include "core/device/sync_guard.h"
#include "core/device/timer.h"
#include "peers/step/step.h"

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

double NoiseStep::loss() const {
  double sum = 0;
  for (auto part = update_.begin(); const Tensor& loss : losses_)
    sum += (part++)->share * loss.item();
  return sum;
}

Times time_steps(NoiseStep& step, int64_t steps, double seconds) {
  const Stream stream = current_stream(step.device());
  Times times;
  std::deque<Moment> passed;  // deque: a Moment cannot be moved
  synchronize(stream);
  const Counters before = trace::counters();
  const int64_t begin = time_ns(Clock::wall);
  passed.emplace_back(stream);
  while (int64_t(passed.size()) <= steps || seconds_since(begin) < seconds) {
    const int64_t cpu = time_ns(Clock::cpu);
    step();
    passed.emplace_back(stream);
    times.cpu_ms.push_back(1e3 * seconds_since(cpu, Clock::cpu));
  }
  times.moved = trace::moved_since(before);
  if (times.moved.contains("kernel.fallbacks"))
    fail(Exit::internal, "some products ran on the plain kernel (see the warnings above), so the ",
         "times say nothing about the library");
  synchronize(stream);
  times.wall_ms = 1e3 * seconds_since(begin);
  for (size_t i = 1; i < passed.size(); ++i) times.ms.push_back(passed[i].ms_since(passed[i - 1]));
  return times;
}

}  // namespace bellows
