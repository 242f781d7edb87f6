// trainer bench step: the training step of a run, repeated on its first batch in memory, as
// peers/torch/torch_step.py times PyTorch's. With --resident it waits for a line on stdin before
// each block of steps, so that a script can let several programs take turns.
#include "labs/bench/step.h"
#include <fmt/format.h>
#include <omp.h>
#include <algorithm>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/config/config.h"
#include "core/device/sync_guard.h"
#include "core/device/timer.h"
#include "labs/bench/bench.h"
#include "trainer/run/run.h"
#include "trainer/verbs/tables.h"

namespace bellows {

void RepeatedStep::fetch_first() {
  Batch batch;
  session_.feed->start(epoch_);
  CHECK(session_.feed->next(batch), "the training set has no full batch");
  set(batch);
}

RepeatedStep::RepeatedStep(const Plan& plan) : session_(plan), train_on_(session_) {
  fetch_first();
  train_on_.prepare();
  session_.model->train(true);
}

void RepeatedStep::next_batch() {
  const trace::Range range("input");
  Batch batch;
  update_.reset();
  session_.feed->catch_up();
  if (session_.feed->next(batch)) return set(batch);
  ++epoch_;
  fetch_first();
}

// After the warm-up, a captured update has told the feed where it reads its batch. So the batch is
// fetched into that buffer, as in all steps of a training.
void RepeatedStep::operator()() {
  if (++steps_ == session_.tuning.warm_up() + 2 && session_.plan.train.cuda_graph) fetch_first();
  const SyncGuard guard(session_.plan.debug.sync_guard);
  losses_ = train_on_(*update_);
}

double RepeatedStep::loss() const {
  double sum = 0;
  for (auto part = update_->begin(); const Tensor& loss : losses_)
    sum += (part++)->share * loss.item();
  return sum;
}

StepTimes time_steps(RepeatedStep& step, int64_t steps, double seconds) {
  const Stream stream = current_stream(step.device());
  StepTimes times;
  std::deque<Moment> passed;  // deque: a Moment cannot be moved
  synchronize(stream);
  const trace::Counters before = trace::counters();
  const int64_t begin = time_ns(Clock::wall);
  passed.emplace_back(stream);
  while (int64_t(passed.size()) <= steps || seconds_since(begin) < seconds) {
    const int64_t cpu = time_ns(Clock::cpu);
    step();
    passed.emplace_back(stream);
    times.cpu_ms.push_back(1e3 * seconds_since(cpu, Clock::cpu));
  }
  times.moved = trace::moved_since(before);
  synchronize(stream);
  times.wall_ms = 1e3 * seconds_since(begin);
  for (size_t i = 1; i < passed.size(); ++i) times.ms.push_back(passed[i].ms_since(passed[i - 1]));
  return times;
}

namespace {
struct Block {
  int64_t steps = 5, warmup = 20;  // steps: the fewest; one step always comes first
  double seconds = 2;
};
}  // namespace

static Json measured_block(RepeatedStep& step, int64_t steps, double seconds) {
  const StepTimes t = time_steps(step, steps, seconds);
  const auto done = int64_t(t.ms.size());
  Json per_step = Json::object();
  for (const auto& [name, moved] : t.moved) per_step[name] = double(moved) / double(done);
  for (const std::string& report : take_sync_reports()) warn(report);
  const double middle = median(t.ms);
  return {{"steps", done},
          {"ms_median", middle},
          {"ms_q1", quantile(t.ms, 0.25)},
          {"ms_q3", quantile(t.ms, 0.75)},
          {"ms_wall", t.wall_ms / double(done)},
          {"ms_cpu_min", *std::ranges::min_element(t.cpu_ms)},
          {"ips", double(step.samples()) / middle * 1e3},
          {"loss", step.loss()},
          {"peak_bytes", allocator_stats(step.device()).peak_allocated},
          {"per_step", per_step}};
}

static Names toggles_that_ran(const Config& config) {
  Names ran;
  for (const ToggleUse& use : toggle_uses(config, trace::counters()))
    if (use.count > 0) ran.push_back(use.toggle->name);
  return ran;
}

// Runs blocks and prints a JSON object for each: one block, or one per line on stdin. A GPU gets a
// fixed number of steps, because the host runs ahead of it. Throws Error (exit 9) at the end if a
// product fell back to the plain kernel: the times say nothing about the library.
static void run_blocks(const Config& config, const Block& o, bool resident) {
  const int64_t begin = time_ns(Clock::wall);
  RepeatedStep step(config.plan);
  step();
  const double first_loss = step.loss();
  const bool on_host = step.device() == Device::cpu;
  const int64_t searches = on_host ? 0 : step.session().tuning.warm_up() + 2;  // and captures
  for (int64_t i = 1; i < std::max(o.warmup, searches); ++i) step();
  const double step_s = on_host ? 0 : time_steps(step, 3, 0).wall_ms * 1e-3 / 3;
  Json facts = {{"name", "bellows"},
                {"model", config.plan.model.model.name()},
                {"batch", step.samples()},
                {"threads", omp_get_max_threads()},
                {"ran", toggles_that_ran(config)},
                {"first_loss", first_loss},
                {"warmup_s", seconds_since(begin)}};
  const int64_t steps = on_host ? o.steps : std::max(o.steps, int64_t(o.seconds / step_s));
  const auto block = [&] { return measured_block(step, steps, on_host ? o.seconds : 0); };
  if (!resident) facts.update(block());
  say(to_line(facts));
  std::string turn;
  while (resident && std::getline(std::cin, turn)) say(to_line(block()));
  if (const int64_t fallbacks = trace::counter("kernel.fallbacks").value())
    fail(Exit::internal, fallbacks, " products ran on the plain kernel; the warnings name them");
}

static int run_step(CommandLine& line, const Arguments& args) {
  std::string file;
  Arguments words;
  Block o;
  bool resident = false;
  line.add_config(file, words);
  line.add_option("--warmup", o.warmup, "steps before the first that counts").shows_default();
  line.add_option("--steps", o.steps, "of a block, at least").positive().shows_default();
  line.add_option("--seconds", o.seconds, "of a block, at least").shows_default();
  line.add_flag("--resident", resident, "one line when warm, then a block for each line on stdin");
  line.add_note("Prints one JSON object: times in ms, and the increase of each counter per step.");
  if (!line.read(args)) return 0;
  run_blocks(make_config(read_sources(file, words)), o, resident);
  return 0;
}

static const AddBench step_bench({"step", "the training step of a run, on one batch in memory",
                                  "trainer bench step --config configs/lenet.yaml", run_step});

}  // namespace bellows
