#include "trainer/run/loop.h"
#include <fmt/format.h>
#include <sys/resource.h>
#include <algorithm>
#include <array>
#include <cmath>
#include "autograd/backward.h"
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/tensor/copy.h"
#include "trainer/log/machine_load.h"
#include "trainer/log/nvml.h"
#include "trainer/run/consensus.h"
#include "trainer/session/losses.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"
#include "trainer/session/windows.h"

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

// Samples of all ranks.
static int64_t samples_at(const Session& session, const Position& at) {
  const int64_t all = session.loader->sampler().joint_size();
  return at.epoch * all + std::min(at.batch * session.joint_batch(), all);
}

static bool reached(const Plan& plan, const Metrics& metrics) {
  const TargetOptions& target = plan.target;
  if (target.metric == "none") return false;
  const double value = metrics.value(target.metric);
  return higher_is_better(plan, target.metric) ? value >= target.value : value <= target.value;
}

namespace {

// A run between its first and its last update.
class Loop {
 public:
  Loop(Session& session, Log& log, Checkpoints* checkpoints, Signals& signals, const Position& from,
       const AfterUpdate& after_update)
      : session_(session),
        log_(log),
        checkpoints_(checkpoints),
        consensus_(session.host_group(), signals),
        after_update_(after_update),
        from_(from) {
    if (session.optimizer->may_skip()) seen_ = session.state->read();
    if (std::optional<Nvml> gpu = nvml_of(session.device)) gpu_.emplace(std::move(*gpu));
  }

  Outcome run() {
    const Kernels use(session_.kernels());  // the feed also runs kernels
    const Scoped interruptible(session_.loader->interrupted, [this] { return stops_alone(); });
    train_on_.prepare();
    session_.loss_terms.take();  // drops those of the dry run
    session_.model->train(true);
    meter_.lap(Phase::other);
    // A signal leaves the evaluation at the end of an epoch to the resumed run, because a
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
    save_and_wait();
    meter_.lap(Phase::save);
    note_times();  // with the last save
    return {at_, known_losses_, metrics_, meter_, consensus_.stop(), cpu_.use()};
  }

 private:
  // Several ranks act on a signal after the same update, so none of them gives up its batch or its
  // evaluation.
  bool stops_alone() const { return consensus_.alone() && consensus_.stop(); }

  void run_epoch() {
    Session& s = session_;
    const SyncGuard guard(plan_.debug.sync_guard);
    meter_.lap(Phase::other);
    s.feed->start(at_.epoch, at_.batch);
    meter_.lap(Phase::load);
    const auto next = [&](Batch& batch) {
      s.feed->catch_up();
      meter_.lap(Phase::step);
      const trace::Range range("input");
      const bool more = s.feed->next(batch);
      meter_.lap(Phase::load);
      return more;
    };
    for (Batch data; !done() && next(data);) {  // already on the device
      log_.batch(data.x, at_.step + 1);
      meter_.lap(Phase::other);
      if (epoch_end_s_) epoch_gap_s_ = training_s() - *std::exchange(epoch_end_s_, {});
      profile_.begin(at_.step);
      anomaly().step = session_.group->step = session_.host_group().step = at_.step + 1;
      const Update update(data, micro_batches(plan_, data.counts.fewest));  // as many on each rank
      losses_.add(train_on_(update), update);
      profile_.end(at_.step);
      meter_.count(data.counts.units);
      padding_.add(data.counts);
      end_update();
    }
  }

  bool done() const {
    return finished(session_, at_) || consensus_.stop() || profile_.ends_the_run(at_.step);
  }

  void end_update() {
    losses_.end_update();
    ++at_.batch, ++at_.step;
    consensus_.end_update(plan_.log.deferred ? nullptr : &losses_.known().back());
    meter_.lap(Phase::step);  // with the wait for a slower rank
    note_losses(consensus_.take_losses());
    const bool last = at_.batch == session_.steps_per_epoch();
    if (at_.batch % plan_.log.every == 0 || last) end_window();
    if (log_.progress_due()) log_.progress(point());
    if (const std::string tuned = session_.tuning.report(); !tuned.empty()) log_.line(tuned);
    if (const std::string news = session_.loader->take_news(); !news.empty()) log_.line(news);
    for (const std::string& report : take_sync_reports()) log_.line(report);
    for (const std::string& message : session_.reducer->take_messages()) log_.line(message);
    poll_checkpoints();
    if (after_update_) after_update_(at_);
    meter_.lap(Phase::other);
    if (last) epoch_end_s_ = training_s();
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

  void poll_checkpoints() {
    guarded([&] { checkpoints_->poll(); });  // a background save may have ended or failed
    const int64_t every = plan_.ckpt.every_iters;
    if ((every && at_.step % every == 0) || consensus_.take_save_request()) save();
    log_checkpoint_messages();
  }

  // Runs work on checkpoints, on the rank that writes them. Its errors end all ranks.
  template <class Work> void guarded(const Work& work) {
    if (!checkpoints_) return;
    try {
      work();
    } catch (const Error& error) {
      consensus_.announce(error);
    }
  }

  // The same for work that may take longer than dist.timeout_s: the other ranks wait for it.
  template <class Work> void on_rank0(const Work& work) {
    guarded(work);
    session_.wait_for_rank0(cat("step ", at_.step, ", checkpoint ", ++writes_));
  }

  void log_checkpoint_messages() {
    if (!checkpoints_) return;
    for (const std::string& message : checkpoints_->take_messages()) log_.line(message);
  }

  // Counts the wait for the device as time of steps.
  void read_losses() {
    meter_.lap(Phase::other);
    losses_.read();
    consensus_.settle();
    meter_.lap(Phase::step);
    const std::vector<double>& known = losses_.known();
    note_losses(plan_.log.deferred
                    ? consensus_.means({known.begin() + std::ssize(known_losses_), known.end()})
                    : consensus_.take_losses());
  }

  // Called before anything is saved or evaluated, so that no non-finite loss goes unnoticed.
  void note_losses(const std::vector<double>& losses) {
    for (const double loss : losses) {
      known_losses_.push_back(loss);
      at_.window.add(loss);
      at_.of_epoch.add(loss);
      nonfinite_ = std::isfinite(loss) ? 0 : nonfinite_ + 1;
      if (plan_.train.on_nonfinite != OnNonfinite::stop || nonfinite_ < plan_.train.max_nonfinite)
        continue;
      throw AgreedError(
          cat("step ", from_.step + std::ssize(known_losses_), ": the loss is ", unsigned_nan(loss),
              "; lower the learning rate, or see which op with  debug.anomaly=true"),
          Exit::numeric);
    }
  }

  void end_window() {
    const SyncGuard expected(OnSync::ignore);
    read_losses();
    // A resumed run that stops before its first update keeps the window open.
    if (at_.window.empty() || at_.step == from_.step) return;
    const Meter::Window window = meter_.take();
    const LossSum losses = std::exchange(at_.window, {});
    last_ = {.loss = losses.mean(),
             .lr = session_.last_rate(),
             .batch_cost = window.batch_cost,
             .reader_cost = window.reader_cost,
             .ips = window.ips,
             .nonfinite_losses = losses.nonfinite};
    const std::string news = cpu_.news();
    Scalars values = gauges();
    ScalarLists lists = costs_by_rank();
    if (const auto load = load_.next()) {
      values.insert(values.end(), {{"cpu_utilization", load->cpu()},
                                   {"disk_bytes_per_s", load->disk_bytes_per_s}});
      lists.emplace_back("cpu_utilization_by_core", load->cores);
    }
    if (plan_.ckpt.on_error == OnSaveError::stop) guarded([&] { checkpoints_->check_folder(); });
    log_.window(point(), values, lists);
    if (!news.empty()) log_.line(news);
    check_stuck();
    meter_.lap(Phase::other);
  }

  LogPoint point() const {
    LogPoint now = last_;
    now.epoch = at_.epoch + 1;
    now.iter = at_.batch;
    now.iters = session_.steps_per_epoch();
    now.step = at_.step;
    now.unit = session_.train_set->info().unit;
    now.eta_s = static_cast<double>(session_.total_steps() - at_.step) * now.batch_cost;
    return now;
  }

  // Costs per update of each rank since the last log line, in seconds: waiting for data, and
  // waiting for gradients of other ranks. Empty in a world of one.
  ScalarLists costs_by_rank() {
    if (consensus_.alone()) return {};
    const int64_t updates = std::max<int64_t>(1, at_.step - std::exchange(costs_at_, at_.step));
    const int64_t now = waited_.value(), waited = now - std::exchange(waited_before_, now);
    const double wait = 1e-9 * double(waited) / double(updates);
    const std::vector<double> all = consensus_.gather({last_.reader_cost, wait});
    ScalarLists costs = {{"reader_cost_by_rank", {}}, {"wait_by_rank", {}}};
    for (size_t i = 0; i < all.size(); ++i) costs[i % 2].second.push_back(all[i]);
    return costs;
  }

  // Means of the terms of the loss, over the samples of all ranks.
  Scalars loss_terms() {
    std::vector<double> sums = session_.loss_terms.take();
    if (!consensus_.alone()) sums = consensus_.means(sums);
    Scalars terms;
    for (const std::string& name : session_.loss_terms.names())
      terms.emplace_back(name, sums[terms.size()] / sums.back());
    return terms;
  }

  Scalars gauges() {
    Scalars values = loss_terms();
    if (epoch_gap_s_) values.emplace_back("epoch_gap_s", *std::exchange(epoch_gap_s_, {}));
    for (const Scalars& more : {session_.tuning.take(), padding_.take()})
      values.insert(values.end(), more.begin(), more.end());
    if (last_.nonfinite_losses)
      values.emplace_back("nonfinite_losses", double(last_.nonfinite_losses));
    if (session_.optimizer->may_skip()) {
      watch_skips();
      if (plan_.amp.scales()) values.emplace_back("loss_scale", seen_.loss_scale);
      values.emplace_back("skipped_updates", double(seen_.skipped));
    }
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    values.insert(values.end(),
                  {{"max_mem_allocated", double(allocator_stats(session_.device).peak_allocated)},
                   {"peak_resident_bytes", 1024.0 * double(usage.ru_maxrss)},
                   {"cpu_cores", cpu_.latest().used}});
    if (const auto gpu = gpu_ ? gpu_->latest() : std::nullopt)
      values.insert(values.end(), {{"gpu_utilization", gpu->utilization},
                                   {"gpu_memory_bytes", gpu->memory_bytes},
                                   {"gpu_power_w", gpu->power_w},
                                   {"gpu_temperature_c", gpu->temperature_c},
                                   {"gpu_sm_clock_mhz", gpu->sm_clock_mhz},
                                   {"gpu_throttle", double(gpu->throttle)}});
    return values;
  }

  // Runs at log steps only, which read the state anyway, so a captured update never waits.
  void watch_skips() {
    const StepState now = session_.state->read();
    last_.skipped_updates = now.skipped - seen_.skipped;
    const bool stuck = now.applied == seen_.applied && now.loss_scale == seen_.loss_scale;
    stuck_ = stuck ? stuck_ + last_.skipped_updates : 0;
    seen_ = now;
  }

  // Throws if updates are skipped one after the other, whatever skips them, unless a loss scale is
  // still falling.
  void check_stuck() const {
    constexpr int64_t kMostStuck = 5;  // fewer may come from a few bad batches
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

  // Returns false after a signal. An evaluation that is interrupted or fails is left to the resumed
  // run: it goes on at the position `before`.
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
    at_.evaluated = at_.step;
    if (at_.target_s < 0 && reached(plan_, *metrics_)) {
      at_.target_s = elapsed_s();
      at_.target_epochs = at_.epoch;
      at_.target_samples = samples_at(session_, at_);
    }
    Position seen = at_;
    seen.epoch += at_.batch > 0;  // the epoch in progress, as in log lines
    log_.evaluation(seen, *metrics_);
    // The evaluation at the end of a run may be one that a longer run would not make. So neither
    // the schedule nor train.patience counts it, and a longer run can resume from here.
    const bool regular = at_.batch == 0 && at_.epoch % plan_.eval.every == 0;
    if (regular) adjust_rate();
    note_best(seen, regular);
    return true;
  }

  void adjust_rate() {
    const std::string metric = session_.watched_metric();
    if (metric.empty()) return;
    if (!session_.react({metrics_->value(metric), higher_is_better(plan_, metric)})) return;
    log_.line(fmt::format("schedule: epoch: {}, step: {}, no improvement, lr is {:g} now",
                          at_.epoch, at_.step, session_.next_rate()));
  }

  void note_best(const Position& seen, bool regular) {
    const std::string metric = best_metric(plan_);
    const double value = metrics_->value(metric);
    const bool higher = higher_is_better(plan_, metric);
    const double worst = higher ? -INFINITY : INFINITY;
    Best& best = at_.best;
    if (regular && improves(higher, value, best.regular.value_or(worst)))
      best.regular = value, best.evaluations_since = 0;
    else
      best.evaluations_since += regular;
    if (!improves(higher, value, best.step >= 0 ? best.value : worst)) return;
    best.step = seen.step, best.epoch = seen.epoch, best.value = value;
    if (plan_.ckpt.best != "none") save_best();
  }

  void save() {
    const SyncGuard expected(OnSync::ignore);
    read_losses();
    note_times();
    const std::array now = {at_.step, at_.epoch, at_.evaluated};
    if (std::exchange(saved_, now) == now) return;
    write([&] {
      checkpoints_->save(at_.step, state_tensors(session_), state_metadata(session_, at_));
    });
    log_checkpoint_messages();
  }

  void save_and_wait() {
    save();
    on_rank0([&] { checkpoints_->wait(); });
    consensus_.settle_now();
    log_checkpoint_messages();
  }

  // Saves best.safetensors, which ckpt.keep does not count. It is complete before the next ordinary
  // checkpoint, whose position refers to it.
  void save_best() {
    const SyncGuard expected(OnSync::ignore);
    note_times();
    write([&] { checkpoints_->save_best(state_tensors(session_), state_metadata(session_, at_)); });
  }

  // Writes a checkpoint. All ranks wait for it and end if it cannot be written; with ckpt.async,
  // after a later update.
  template <class Write> void write(const Write& write) {
    meter_.lap(Phase::other);
    on_rank0(write);
    if (!plan_.ckpt.async) consensus_.settle_now();
    meter_.lap(Phase::save);
  }

  double training_s() const {
    return meter_.total_seconds() - meter_.seconds(Phase::eval) - meter_.seconds(Phase::save);
  }
  double elapsed_s() const { return from_.elapsed_s + meter_.total_seconds(); }
  void note_times() {
    at_.elapsed_s = elapsed_s();
    at_.load_s = from_.load_s + meter_.seconds(Phase::load);
    at_.step_s = from_.step_s + meter_.seconds(Phase::step);
    at_.eval_s = from_.eval_s + meter_.seconds(Phase::eval);
    at_.save_s = from_.save_s + meter_.seconds(Phase::save);
  }

  Session& session_;
  const Plan& plan_ = session_.plan;
  Log& log_;
  Checkpoints* checkpoints_;
  Consensus consensus_;
  const AfterUpdate& after_update_;
  const Position from_;
  Position at_ = from_;
  Meter meter_{trace::now_ns};
  Losses losses_{plan_.log.deferred, session_.device};
  CpuShare cpu_;
  LoadMeter load_;                 // of the machine, once a second
  std::optional<GpuMonitor> gpu_;  // load of the GPU, if training is on one
  PaddingGauge padding_;
  ProfileWindow profile_{plan_.profile};
  TrainingStep train_on_{session_};
  std::vector<double> known_losses_;  // losses of this process's updates; means over the ranks
  trace::Counter& waited_ = trace::counter("dist.exposed_wait_ns");
  int64_t waited_before_ = waited_.value(), costs_at_ = from_.step;  // at the last costs_by_rank()
  int64_t writes_ = 0;                                               // calls of on_rank0()
  int64_t nonfinite_ = 0;  // consecutive non-finite losses
  StepState seen_;         // at the last log step
  int64_t stuck_ = 0;      // skipped updates since one was applied or the scale changed
  // Set between an epoch's end and the next one's first batch: training_s() at the end. The gap is
  // the time between the two; the first log line of an epoch reports it.
  std::optional<double> epoch_end_s_, epoch_gap_s_;
  LogPoint last_;                        // values of the last log line
  std::array<int64_t, 3> saved_ = {-1};  // step, epoch, evaluated at the last save()
  std::optional<Metrics> metrics_;       // result of the last evaluation in this process
};

}  // namespace

Outcome train(Session& session, Log& log, Checkpoints* checkpoints, Signals& signals,
              const Position& from, const AfterUpdate& after_update) {
  return Loop(session, log, checkpoints, signals, from, after_update).run();
}

}  // namespace bellows
