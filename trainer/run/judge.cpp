#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/words.h"
#include "trainer/run/loop_parts.h"
#include "trainer/session/session.h"

namespace bellows {

bool out_of_patience(const TrainOptions& train, const Position& at) {
  return train.patience && at.best.evaluations_since >= train.patience;
}

bool finished(const Session& session, const Position& at) {
  return at.step >= session.total_steps() || (session.plan.target.stop && at.target_s >= 0) ||
         out_of_patience(session.plan.train, at);
}

std::string best_metric(const Plan& plan) {
  return plan.ckpt.best == "none" ? "loss" : plan.ckpt.best;
}

Judge::Judge(const Running& running) : Running(running) {
  if (session_.optimizer->may_skip()) seen_ = session_.state->read();
}

// ---- losses

void Judge::add(const std::vector<double>& losses) {
  for (const double loss : losses) {
    losses_.push_back(loss);
    at_.window.add(loss);
    at_.of_epoch.add(loss);
    nonfinite_ = std::isfinite(loss) ? 0 : nonfinite_ + 1;
    if (plan_.train.on_nonfinite == OnNonfinite::stop && nonfinite_ >= plan_.train.max_nonfinite)
      throw AgreedError(
          cat("step ", first_step_ + std::ssize(losses_), ": the loss is ", unsigned_nan(loss),
              "; lower the learning rate, or see which op with  debug.anomaly=true"),
          Exit::numeric);
  }
}

int64_t Judge::watch_skips() {
  if (!session_.optimizer->may_skip()) return 0;
  const StepState now = session_.state->read();
  const int64_t skipped = now.skipped - seen_.skipped;
  const bool stuck = now.applied == seen_.applied && now.loss_scale == seen_.loss_scale;
  stuck_ = stuck ? stuck_ + skipped : 0;
  seen_ = now;
  return skipped;
}

void Judge::check_stuck() const {
  constexpr int64_t kMostStuck = 5;  // a smaller number may be due to a few bad batches
  const int64_t most =
      std::min(std::max(kMostStuck, plan_.train.max_nonfinite), session_.total_steps());
  if (plan_.train.on_nonfinite != OnNonfinite::stop || stuck_ < most) return;
  std::string text = cat("step ", at_.step, ": ", count_of(stuck_, "update"),
                         " skipped in a row, because gradients were not finite");
  text += plan_.amp.scales()
              ? cat(", and the loss scale ", seen_.loss_scale, " falls no further; lower the ",
                    "learning rate or amp.scaler.min_scale, or train in bf16")
              : "; lower the learning rate, or see which op with  debug.anomaly=true";
  throw AgreedError(text, Exit::numeric);
}

// ---- evaluations

static bool reached(const Plan& plan, const Metrics& metrics) {
  const TargetOptions& target = plan.target;
  if (target.metric == "none") return false;
  const double value = metrics.value(target.metric);
  return higher_is_better(plan, target.metric) ? value >= target.value : value <= target.value;
}

bool Judge::judge(const Metrics& metrics) {
  at_.evaluated = at_.step;
  if (at_.target_s < 0 && reached(plan_, metrics)) {
    const int64_t all = session_.loader->sampler().joint_size();  // samples of all ranks
    at_.target_s = at_.elapsed_s;
    at_.target_epochs = at_.epoch;
    at_.target_samples = at_.epoch * all + std::min(at_.batch * session_.joint_batch(), all);
  }
  Position seen = at_;
  seen.epoch += at_.batch > 0;  // the epoch in progress, as in log lines
  log_.evaluation(seen, metrics);
  // A longer run might not make the evaluation at the end of this one. So neither the schedule nor
  // train.patience counts it, and a longer run can resume from here.
  const bool regular = at_.batch == 0 && at_.epoch % plan_.eval.every == 0;
  const std::string watched = session_.watched_metric();
  if (regular && !watched.empty() &&
      session_.react({metrics.value(watched), higher_is_better(plan_, watched)}))
    log_.line(fmt::format("schedule: epoch: {}, step: {}, no improvement, lr is {:g} now",
                          at_.epoch, at_.step, session_.next_rate()));

  const double value = metrics.value(best_metric(plan_));
  const bool higher = higher_is_better(plan_, best_metric(plan_));
  const double worst = higher ? -INFINITY : INFINITY;
  Best& best = at_.best;
  if (regular && improves(higher, value, best.regular.value_or(worst)))
    best.regular = value, best.evaluations_since = 0;
  else
    best.evaluations_since += regular;
  if (!improves(higher, value, best.step >= 0 ? best.value : worst)) return false;
  best.step = seen.step, best.epoch = seen.epoch, best.value = value;
  return true;
}

}  // namespace bellows
