#include "trainer/run/loop.h"
#include <fmt/format.h>
#include <cmath>
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/device/device_info.h"
#include "core/tensor/copy.h"
#include "trainer/session/session.h"

namespace bellows {

Loop::Loop(Session& session, Log& log, Checkpoints* checkpoints, const Position& from)
    : session_(session),
      plan_(session.plan),
      log_(log),
      checkpoints_(checkpoints),
      from_(from),
      at_(from),
      meter_(trace::now_ns),
      losses_(plan_.log.deferred, session.device),
      profile_(plan_.profile),
      train_on_(session) {
  if (plan_.amp.scales()) seen_ = session.state->read();
  if (session.device != Device::cuda) return;
  if (const CudaReport report = cuda_report(); !report.gpus.empty())
    nvml_.emplace(report.gpu().pci);
}

// With progressive_resize, logs the size of this epoch's images. A new size needs other kernels, so
// the tuning window opens again.
void Loop::update_image_size() {
  const Transforms& transforms = session_.loader.transforms();
  const Shape now = transforms.shape(at_.epoch);
  if (transforms.shape(0) == session_.input) return;
  if (!(std::exchange(picture_, now) == now)) train_on_.tuning().reopen();
  log_.line(cat("pictures: epoch: ", at_.epoch + 1, ", size: ", now[1], "x", now[2]));
}

void Loop::run_epoch() {
  Session& s = session_;
  update_image_size();
  const SyncGuard guard(plan_.debug.sync_guard);
  s.feed.start(at_.epoch, at_.batch);
  const auto next = [&](Batch& batch) {
    s.feed.catch_up();
    meter_.lap(Phase::step);
    return s.feed.next(batch);
  };
  for (Batch data; !done() && next(data);) {  // already on the device
    meter_.lap(Phase::load);
    profile_.begin(at_.step);
    anomaly().step = at_.step + 1;
    const Update update(data, plan_.train.accumulate);  // 1 or N micro-batches
    losses_.add(train_on_(data), update);
    profile_.end(at_.step);
    end_update(update);
  }
}

Outcome Loop::run(const std::function<void()>& pause) {
  pause_ = pause;
  const Kernels use(train_on_.kernels());
  train_on_.prepare();
  session_.model->train(true);
  meter_.lap(Phase::other);
  for (;;) {  // a checkpoint may be between the last update of an epoch and its evaluation
    if (at_.batch == session_.steps_per_epoch()) end_epoch();
    if (done()) break;
    run_epoch();
  }
  end_window();
  const bool due = plan_.eval.every && at_.evaluated != at_.step && !signals_.stop();
  if (due) evaluate_now();
  save();
  if (checkpoints_) {
    checkpoints_->wait();
    log_checkpoint_messages();
  }
  meter_.lap(Phase::save);
  return {at_, losses_.known(), metrics_, meter_, signals_.stop(), cpu_.line()};
}

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

bool Loop::done() const {
  return finished(session_, at_) || signals_.stop() || profile_.ends_the_run(at_.step);
}

void Loop::end_update(const Update& update) {
  losses_.end_update();
  ++at_.batch, ++at_.step;
  meter_.lap(Phase::step);
  meter_.count(update.samples());
  check_losses();
  const bool last = at_.batch == session_.steps_per_epoch();
  if (at_.batch % plan_.log.every == 0 || last) end_window();
  if (log_.progress_due()) log_.progress(point());
  if (const std::string tuned = train_on_.tuning().report(); !tuned.empty()) log_.line(tuned);
  for (const std::string& report : take_sync_reports()) log_.line(report);
  poll_checkpoints();
  if (pause_) pause_();
  meter_.lap(Phase::other);
}

void Loop::poll_checkpoints() {
  if (!checkpoints_) return;
  checkpoints_->poll();  // a background save may have ended or failed
  const int64_t every = plan_.ckpt.every_iters;
  if ((every && at_.step % every == 0) || signals_.take_save_request()) save();
  log_checkpoint_messages();
}

void Loop::log_checkpoint_messages() {
  for (const std::string& message : checkpoints_->take_messages()) log_.line(message);
}

void Loop::end_epoch() {
  ++at_.epoch, at_.batch = 0;
  log_.epoch(at_);
  at_.of_epoch = {};
  if (plan_.eval.every && at_.epoch % plan_.eval.every == 0) evaluate_now();
  if (plan_.ckpt.every && at_.epoch % plan_.ckpt.every == 0) save();
}

// Waiting for the device here counts as time of its steps.
void Loop::read_losses() {
  meter_.lap(Phase::other);
  losses_.read();
  meter_.lap(Phase::step);
  check_losses();
}

// Called before anything is saved or evaluated, so that no non-finite loss goes unnoticed.
void Loop::check_losses() {
  const std::vector<double>& known = losses_.known();
  for (; checked_ < known.size(); ++checked_) {
    at_.window.add(known[checked_]);
    at_.of_epoch.add(known[checked_]);
    nonfinite_ = std::isfinite(known[checked_]) ? 0 : nonfinite_ + 1;
    if (plan_.train.on_nonfinite != OnNonfinite::stop || nonfinite_ < plan_.train.max_nonfinite)
      continue;
    const int64_t step = from_.step + static_cast<int64_t>(checked_) + 1;
    fail(Exit::numeric, "step ", step, ": the loss is ", known[checked_],
         "; lower the learning rate, or see which op with  debug.anomaly=true");
  }
}

// Runs at log steps only, on values that are read there anyway, so a captured update never waits.
void Loop::watch_loss_scale(const StepState& now) {
  const bool stuck = now.applied == seen_.applied && now.loss_scale == seen_.loss_scale;
  stuck_ = stuck ? stuck_ + now.skipped - seen_.skipped : 0;
  seen_ = now;
}

// Throws if gradients are not finite although the loss scale can fall no further.
void Loop::check_scale() const {
  constexpr int64_t kMostStuck = 5;  // fewer may come from a few bad batches
  if (plan_.train.on_nonfinite != OnNonfinite::stop || stuck_ < kMostStuck) return;
  fail(Exit::numeric, "step ", at_.step, ": the last ", stuck_,
       " updates were skipped for gradients that are not finite, and the loss scale ",
       seen_.loss_scale,
       " falls no further; lower the learning rate or amp.scaler.min_scale, or train in bf16");
}

LogPoint Loop::point() const {
  LogPoint now = last_;
  now.epoch = at_.epoch + 1;
  now.iter = at_.batch;
  now.iters = session_.steps_per_epoch();
  now.step = at_.step;
  now.unit = session_.train_set->info().unit;
  now.eta_s = static_cast<double>(session_.total_steps() - at_.step) * now.batch_cost;
  return now;
}

void Loop::end_window() {
  const SyncGuard expected(OnSync::ignore);
  read_losses();
  if (at_.window.count == 0) return;
  const Meter::Window window = meter_.take();
  last_.loss = std::exchange(at_.window, {}).mean();
  last_.lr = session_.last_rate();
  last_.batch_cost = window.batch_cost;
  last_.reader_cost = window.reader_cost;
  last_.ips = window.ips;
  log_.window(point(), gauges());
  if (const std::string news = cpu_.news(); !news.empty()) log_.line(news);
  check_scale();
  meter_.lap(Phase::other);
}

Scalars Loop::gauges() {
  Scalars values = train_on_.tuning().take();
  if (picture_.rank())
    values.emplace_back("image_size", double(std::min(picture_[1], picture_[2])));
  if (plan_.amp.scales()) {
    const StepState state = session_.state->read();
    watch_loss_scale(state);
    values.emplace_back("loss_scale", state.loss_scale);
    values.emplace_back("skipped_updates", double(state.skipped));
  }
  values.emplace_back("max_mem_allocated", double(allocator_stats(session_.device).peak_allocated));
  if (const auto gpu = nvml_ ? nvml_->read() : std::nullopt) {
    values.emplace_back("gpu_utilization", gpu->utilization);
    values.emplace_back("gpu_memory_bytes", gpu->memory_bytes);
    values.emplace_back("gpu_power_w", gpu->power_w);
    values.emplace_back("gpu_temperature_c", gpu->temperature_c);
    values.emplace_back("gpu_sm_clock_mhz", gpu->sm_clock_mhz);
    values.emplace_back("gpu_throttle", double(gpu->throttle));
  }
  return values;
}

static int64_t samples_at(const Session& session, const Position& at) {
  const int64_t all = session.loader.samples();
  return at.epoch * all + std::min(at.batch * session.plan.data.loader.batch_size, all);
}

static bool reached(const TargetOptions& target, const Metrics& metrics) {
  if (target.metric == "none") return false;
  const double value = metrics.value(target.metric);
  return target.metric == "loss" ? value <= target.value : value >= target.value;
}

void Loop::evaluate_now() {
  meter_.lap(Phase::other);
  const Kernels use(train_on_.kernels());
  metrics_ = evaluate(session_);
  at_.evaluated = at_.step;
  meter_.lap(Phase::eval);
  if (at_.target_s < 0 && reached(plan_.target, *metrics_)) {
    at_.target_s = from_.elapsed_s + meter_.total_seconds();
    at_.target_epochs = at_.epoch;
    at_.target_samples = samples_at(session_, at_);
  }
  Position seen = at_;
  seen.epoch += at_.batch > 0;  // the epoch in progress, as in log lines
  log_.evaluation(seen, *metrics_);
  // The evaluation at the end of a run may be one that a longer run would not make. So neither the
  // schedule nor train.patience counts it, and a longer run can resume from here.
  const bool regular = at_.batch == 0 && at_.epoch % plan_.eval.every == 0;
  if (regular) adjust_rate();
  note_best(seen, regular);
}

void Loop::adjust_rate() {
  const auto value = [&](const std::string& metric) { return metrics_->value(metric); };
  if (!session_.react(value)) return;
  log_.line(fmt::format("schedule: epoch: {}, step: {}, no improvement, lr is {:g} now", at_.epoch,
                        at_.step, session_.next_rate()));
}

void Loop::note_best(const Position& seen, bool regular) {
  const std::string metric = best_metric(plan_);
  const double value = metrics_->value(metric);
  const double none = metric == "loss" ? INFINITY : -INFINITY;
  Best& best = at_.best;
  if (improves(metric, value, best.step < 0 ? none : best.value)) {
    best = {.step = seen.step, .epoch = seen.epoch, .value = value};
    if (plan_.ckpt.best != "none") save_best();
  } else {
    best.evaluations_since += regular;
  }
}

// Saves best.safetensors, which ckpt.keep does not count. It is complete before the next ordinary
// checkpoint, whose position refers to it.
void Loop::save_best() {
  if (!checkpoints_) return;
  const SyncGuard expected(OnSync::ignore);
  at_.elapsed_s = from_.elapsed_s + meter_.total_seconds();
  meter_.lap(Phase::other);
  checkpoints_->save_best(state_tensors(session_), state_metadata(session_, at_));
  meter_.lap(Phase::save);
}

void Loop::save() {
  const SyncGuard expected(OnSync::ignore);
  read_losses();
  at_.elapsed_s = from_.elapsed_s + meter_.total_seconds();
  const bool again = saved_ && saved_->step == at_.step && saved_->epoch == at_.epoch &&
                     saved_->evaluated == at_.evaluated;
  if (!checkpoints_ || again) return;
  meter_.lap(Phase::other);
  checkpoints_->save(at_.step, state_tensors(session_), state_metadata(session_, at_));
  saved_ = at_;
  meter_.lap(Phase::save);
  log_checkpoint_messages();
}

}  // namespace bellows
