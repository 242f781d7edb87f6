#include "trainer/run/loop.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "trainer/run/loop_parts.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

namespace {

// Limits profiling to updates [from, to) of a run. Each update is a range named ProfilerStep#N,
// which contains the ranges of phases, ops and modules.
class ProfileWindow {
 public:
  explicit ProfileWindow(const ProfileOptions& options) : options_(options) {}
  ~ProfileWindow() {
    step_.reset();
    if (marking_) trace::mark(false);
  }
  void begin(int64_t update) {
    if (options_.window.empty() || update >= options_.window[1]) return;
    if (!marking_ && update >= options_.window[0]) trace::mark(marking_ = true);
    if (!marking_) return;
    name_ = cat("ProfilerStep#", update);
    step_.emplace(name_.c_str());
  }
  void end(int64_t update) {
    step_.reset();
    if (marking_ && update + 1 >= options_.window[1]) trace::mark(marking_ = false);
  }
  bool ends_the_run(int64_t updates) const {  // true after the window, with profile.exit_after
    return options_.exit_after && !options_.window.empty() && updates >= options_.window[1];
  }

 private:
  const ProfileOptions& options_;
  bool marking_ = false;
  std::string name_;  // names the open range
  std::optional<trace::Range> step_;
};

class Loop {
 public:
  Loop(Session& session, Log& log, Checkpoints* checkpoints, Signals& signals, const Position& from,
       const AfterUpdate& after_update)
      : session_(session),
        log_(log),
        consensus_(session.host_group(), signals),
        after_update_(after_update),
        first_step_(from.step),
        at_(from),
        saver_(running_, checkpoints) {}

  Outcome run() {
    const Kernels use(session_.kernels());  // the feed also runs kernels
    const Scoped interruptible(session_.loader->interrupted, [this] { return stops_alone(); });
    train_on_.prepare();
    session_.loss_terms.take();  // drops the terms of the dry run
    session_.model->train(true);
    meter_.lap(Phase::other);
    // After a signal, the evaluation at the end of an epoch is left to the resumed run, because a
    // supervisor may not wait for it.
    for (;;) {
      if (at_.batch == session_.steps_per_epoch() && !consensus_.stop()) end_epoch();
      if (done()) break;
      run_epoch();
    }
    end_window();
    consensus_.settle_now();
    const bool due = plan_.eval.every && at_.evaluated != at_.step && !consensus_.stop();
    if (due) evaluate_now(at_);
    const std::vector<double> memory = gauges_.memory_by_rank();
    save_and_wait();
    meter_.lap(Phase::save);
    saver_.note_times();  // including the last save
    return {at_, judge_.losses(), metrics_, meter_, consensus_.stop(), gauges_.cpu(), memory};
  }

 private:
  // True if a signal ends the run at once. Several ranks act on a signal after the same update, so
  // none of them interrupts its batch or its evaluation.
  bool stops_alone() const { return consensus_.alone() && consensus_.stop(); }

  bool done() const {
    return finished(session_, at_) || consensus_.stop() || profile_.ends_the_run(at_.step);
  }

  bool next(Batch& batch) {
    session_.feed->catch_up();
    meter_.lap(Phase::step);
    const trace::Range range("input");
    const bool more = session_.feed->next(batch);
    meter_.lap(Phase::load);
    return more;
  }

  void run_epoch() {
    const SyncGuard guard(plan_.debug.sync_guard);
    meter_.lap(Phase::other);
    session_.feed->start(at_.epoch, at_.batch);
    meter_.lap(Phase::load);
    for (Batch batch; !done() && next(batch);) step(batch);
  }

  void step(const Batch& data) {
    log_.batch(data.x, at_.step + 1);
    meter_.lap(Phase::other);
    gauges_.begin_update(data.counts);
    profile_.begin(at_.step);
    anomaly().step = session_.group->step = session_.host_group().step = at_.step + 1;
    const Update update(data, micro_batches(plan_, data.counts.fewest));  // equal on all ranks
    // Logs the kernels of the second update, because the first one searches and captures.
    const bool logged = trace::kernels_logged;  // by a profile
    trace::kernels_logged = logged || (plan_.log.kernels && at_.step == first_step_ + 1);
    losses_.add(train_on_(update), update);
    trace::kernels_logged = logged;
    profile_.end(at_.step);
    meter_.count(data.counts.units);
    losses_.end_update();
    ++at_.batch, ++at_.step;
    consensus_.end_update(plan_.log.deferred ? nullptr : &losses_.known().back());
    meter_.lap(Phase::step);  // includes the wait for a slower rank
    judge_.add(consensus_.take_losses());
    end_update();
  }

  void end_update() {
    const bool last = at_.batch == session_.steps_per_epoch();
    if (at_.batch % plan_.log.every == 0 || last) end_window();
    log_news();
    if (saver_.poll()) save();
    if (after_update_) after_update_(at_);
    meter_.lap(Phase::other);
    if (last) gauges_.end_epoch();
  }

  void log_news() {
    if (log_.progress_due()) log_.progress(point());
    for (const std::string& news : {session_.tuning.report(), session_.loader->take_news()})
      if (!news.empty()) log_.line(news);
    for (const std::string& report : take_sync_reports()) log_.line(report);
    for (const std::string& message : session_.reducer->take_messages()) log_.line(message);
  }

  void end_epoch() {
    const Position before = at_;
    ++at_.epoch, at_.batch = 0;
    log_.epoch(at_);
    at_.of_epoch = {};
    const bool due = plan_.eval.every && at_.epoch % plan_.eval.every == 0;
    if (due && !evaluate_now(before)) return;
    if (plan_.ckpt.every && at_.epoch % plan_.ckpt.every == 0) save();
  }

  // Counts the wait for the device as time of steps.
  void read_losses() {
    meter_.lap(Phase::other);
    losses_.read();
    consensus_.settle();
    meter_.lap(Phase::step);
    const std::vector<double>& known = losses_.known();
    judge_.add(plan_.log.deferred
                   ? consensus_.means({known.begin() + std::ssize(judge_.losses()), known.end()})
                   : consensus_.take_losses());
  }

  void end_window() {
    const SyncGuard expected(OnSync::ignore);
    read_losses();
    // A resumed run that stops before its first update keeps the window open.
    if (at_.window.empty() || at_.step == first_step_) return;
    const Meter::Window window = meter_.take();
    const LossSum losses = std::exchange(at_.window, {});
    last_ = {.loss = losses.mean(),
             .lr = session_.last_rate(),
             .batch_cost = window.batch_cost,
             .reader_cost = window.reader_cost,
             .ips = window.ips,
             .nonfinite_losses = losses.nonfinite,
             .skipped_updates = judge_.watch_skips()};
    const std::string news = gauges_.news();
    const auto [values, lists] = gauges_.take(last_, judge_.seen());
    saver_.check_folder();
    log_.window(point(), values, lists);
    if (!news.empty()) log_.line(news);
    judge_.check_stuck();
    meter_.lap(Phase::other);
  }

  LogPoint point() const {
    LogPoint now = last_;
    if (last_.batch_cost == 0 && at_.step > first_step_ + 1) {  // no log line has been written yet
      const Meter::Window window = meter_.window();
      now.batch_cost = window.batch_cost, now.reader_cost = window.reader_cost;
      now.ips = window.ips;
      if (!judge_.losses().empty()) now.loss = mean(judge_.losses());
    }
    now.epoch = at_.epoch + 1;
    now.iter = at_.batch;
    now.iters = session_.steps_per_epoch();
    now.step = at_.step;
    now.unit = session_.train_set->info().unit;
    now.eta_s = static_cast<double>(session_.total_steps() - at_.step) * now.batch_cost;
    return now;
  }

  // Returns false after a signal. An evaluation that is interrupted or fails is left to the resumed
  // run, which continues at the position `before`.
  bool evaluate_now(const Position& before) {
    meter_.lap(Phase::other);
    Metrics metrics;
    try {
      metrics = evaluate(session_, [this] { return stops_alone(); });
    } catch (const Error&) {
      at_ = before;
      if (consensus_.alone()) save_and_wait();
      throw;
    }
    meter_.lap(Phase::eval);
    if (metrics.samples == 0) return at_ = before, false;
    metrics_ = metrics;
    saver_.note_times();
    const bool best = judge_.judge(metrics);
    if (best && plan_.ckpt.best != "none") saver_.save_best();
    return true;
  }

  void save() {
    const SyncGuard expected(OnSync::ignore);
    read_losses();
    saver_.save();
  }

  void save_and_wait() {
    save();
    saver_.wait();
  }

  Session& session_;
  const Plan& plan_ = session_.plan;
  Log& log_;
  Consensus consensus_;
  const AfterUpdate& after_update_;
  const int64_t first_step_;  // first step of this process
  Position at_;
  Meter meter_{trace::now_ns};
  Losses losses_{plan_.log.deferred, session_.device};
  const Running running_{session_, plan_, log_, consensus_, meter_, at_};
  Judge judge_{running_};
  Saver saver_;
  Gauges gauges_{running_};
  ProfileWindow profile_{plan_.profile};
  TrainingStep train_on_{session_};
  LogPoint last_;                   // values of the last log line
  std::optional<Metrics> metrics_;  // result of the last evaluation in this process
};

}  // namespace

Outcome train(Session& session, Log& log, Checkpoints* checkpoints, Signals& signals,
              const Position& from, const AfterUpdate& after_update) {
  return Loop(session, log, checkpoints, signals, from, after_update).run();
}

}  // namespace bellows
