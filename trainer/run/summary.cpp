#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/device/topology.h"
#include "trainer/run/loop_parts.h"
#include "trainer/run/run.h"
#include "trainer/session/session.h"

namespace bellows {

static std::vector<const Toggle*> toggles_on(const Config& config) {
  std::vector<const Toggle*> on;
  for (const Toggle& toggle : toggles())
    if (config.toggles.at(toggle.name).text != toggle.off()) on.push_back(&toggle);
  std::ranges::sort(on, {}, &Toggle::name);
  return on;
}

std::string toggle_line(const Config& config) {
  std::string line = "toggles:";
  for (const Toggle* toggle : toggles_on(config)) {
    const std::string& value = config.toggles.at(toggle->name).text;
    line += cat(" ", toggle->name, value == "on" ? "" : "=" + value);
  }
  return line == "toggles:" ? "toggles: none" : line;
}

static std::string target_line(const Session& session, const Outcome& outcome) {
  const TargetOptions& target = session.plan.target;
  const Position& at = outcome.at;
  if (at.target_s < 0)
    return fmt::format("target: {} {} not reached{}", target.metric, target.value,
                       outcome.metrics
                           ? fmt::format(", it is {:.4f}", outcome.metrics->value(target.metric))
                           : ", nothing was evaluated");
  return fmt::format("target: {} {} reached; time-to-target: {:.2f} s, {}, {}", target.metric,
                     target.value, at.target_s, count_of(at.target_samples, "sample"),
                     count_of(at.target_epochs, "epoch"));
}

static std::string best_line(const Session& session, const Outcome& outcome) {
  const Plan& plan = session.plan;
  const Position& at = outcome.at;
  if (at.best.step < 0 && !outcome.metrics) return "best: nothing was evaluated";
  const std::string metric = best_metric(plan);
  const std::string best = at.best.step < 0
                               ? cat("no finite ", metric)
                               : fmt::format("{}: {:.4f}, epoch: {}, step: {}", metric,
                                             at.best.value, at.best.epoch, at.best.step);
  if (!out_of_patience(plan.train, at)) return "best: " + best;
  return cat("stopped early: ", count_of(at.best.evaluations_since, "evaluation"),
             " without improvement (train.patience); best: ", best);
}

static std::string time_line(const Position& at) {
  const double other_s = at.elapsed_s - at.step_s - at.load_s - at.eval_s - at.save_s;
  const auto share = [&](double s) { return 100 * s / std::max(at.elapsed_s, 1e-9); };
  return fmt::format(
      "time: {:.1f} % step, {:.1f} % loading, {:.1f} % evaluation, {:.1f} % saving, {:.1f} % other",
      share(at.step_s), share(at.load_s), share(at.eval_s), share(at.save_s),
      share(std::max(0.0, other_s)));
}

static int64_t counted(const char* name) { return trace::counter(name).value(); }

static std::string picture_line(const Meter& meter) {
  const int64_t pictures = counted("log.pictures");
  if (pictures == 0) return "";
  return fmt::format("pictures: {} of batches, {:.1f} % of the time (log.pictures_every)", pictures,
                     1e-7 * double(counted("log.picture_ns")) / meter.total_seconds());
}

static std::string skipped_line(const Session& session) {
  const StepState state = session.state->read();
  const std::string skipped =
      cat(state.skipped, " of ", count_of(state.applied + state.skipped, "update"), " skipped");
  if (session.plan.amp.scales())
    return fmt::format("amp: loss scale {:g}, {}", state.loss_scale, skipped);
  return state.skipped ? cat("warning: ", skipped, ", because gradients were not finite") : "";
}

// "memory by rank: 41.2, 40.9 MiB in tensors and 160, 158 MiB in the process at the peak"
static std::string rank_memory_line(const std::vector<double>& by_rank) {
  std::string tensors, processes;
  for (size_t i = 0; i < by_rank.size(); i += 2) {
    tensors += fmt::format("{}{:.1f}", i ? ", " : "", by_rank[i] / 1048576);
    processes += fmt::format("{}{:.0f}", i ? ", " : "", by_rank[i + 1] / 1048576);
  }
  return by_rank.empty() ? ""
                         : cat("memory by rank: ", tensors, " MiB in tensors and ", processes,
                               " MiB in the process at the peak");
}

static std::string saving_warning(const Session& session, const Position& at) {
  const double share = at.save_s / std::max(at.elapsed_s, 1e-9);
  const double limit = session.plan.ckpt.max_overhead;
  const bool only_at_the_end = counted("ckpt.saves") == 1;  // no option saves less often
  if (share <= limit || only_at_the_end) return "";
  return fmt::format(
      "warning: saving took {:.3g} % of the time, more than {:g} % "
      "(ckpt.max_overhead); save less often ({}){}",
      100 * share, 100 * limit, saving_interval(session.plan.ckpt),
      session.plan.ckpt.async ? "" : ", or  toggles: {async_checkpoint: on}");
}

static std::string damaged_line(const Session& session) {
  std::string line;
  if (const Dataset& set = *session.train_set; set.damaged()) line = "data: " + set.damaged_text();
  if (const Dataset& set = *session.test_set;
      set.damaged() && session.test_set != session.train_set)
    line += cat(line.empty() ? "data: " : "; ", "in the test set, ", set.damaged_text());
  return line;
}

// With log.kernels, returns the implementations that ran, such as "kernel: conv1 conv2d:
// brgconv:avx512_core". Kernels of the loss and the optimizer have no module.
static Lines kernel_lines() {
  Lines lines;
  for (const trace::KernelRun& run : trace::take_kernels()) {
    std::string line =
        cat("kernel: ", run.module, run.module.empty() ? "" : " ", run.kernel, ": ", run.name);
    if (!std::ranges::count(lines, line)) lines.push_back(std::move(line));
  }
  return lines.empty() ? Lines{"kernels: all are the plain ones"} : lines;
}

static Lines lock_lines() {
  Lines lines;
  const Counters counts = trace::counters();
  for (const auto& [name, count] : counts) {
    if (!name.starts_with("lock.") || !name.ends_with(".contended") || count == 0) continue;
    const std::string lock = name.substr(0, name.rfind('.'));
    lines.push_back(fmt::format("{}: waited for {}, {:.3f} ms", lock, count_of(count, "time"),
                                1e-6 * double(trace::value_of(counts, lock + ".wait_ns"))));
  }
  return lines.empty() ? Lines{"locks: no thread waited"} : lines;
}

Lines summary(const Session& session, const Outcome& outcome) {
  const Meter& meter = outcome.meter;
  const double peak_mb = allocator_stats(session.device).peak_allocated / 1048576.0;
  Lines lines;
  lines.push_back(fmt::format("done: {}, {}, {:.2f} s, {:.1f} {}/sec",
                              count_of(outcome.at.step, "step"),
                              count_of(outcome.at.epoch, "epoch"), outcome.at.elapsed_s,
                              meter.ips(), session.train_set->info().unit));
  if (outcome.metrics) lines.push_back("test: " + to_text(*outcome.metrics));
  if (session.plan.target.metric != "none") lines.push_back(target_line(session, outcome));
  if (session.plan.ckpt.best != "none" || session.plan.train.patience)
    lines.push_back(best_line(session, outcome));
  for (const std::string& line :
       {skipped_line(session), damaged_line(session), time_line(outcome.at), picture_line(meter),
        cpu_line(outcome.cpu), fmt::format("memory: {:.1f} MiB in tensors at the peak", peak_mb),
        rank_memory_line(outcome.memory_by_rank), saving_warning(session, outcome.at)})
    if (!line.empty()) lines.push_back(line);
  if (session.plan.log.kernels) std::ranges::move(kernel_lines(), std::back_inserter(lines));
  if (session.plan.debug.lock_stats) std::ranges::move(lock_lines(), std::back_inserter(lines));
  lines.push_back("params hash: " + model_hash(session));
  return lines;
}

Scalars totals(const Session& session, const Outcome& outcome) {
  const Meter& meter = outcome.meter;
  const auto peak = double(allocator_stats(session.device).peak_allocated);
  const MakingTime& making = session.loader->making_time();
  Scalars values = {
      {"elapsed_s", outcome.at.elapsed_s},
      {"model_s", session.model_s},
      {"ips", meter.ips()},
      {"load_s", outcome.at.load_s},
      {"load_s_per_batch", 1e-9 * double(making.ns) / double(std::max<int64_t>(1, making.batches))},
      {"step_s", outcome.at.step_s},
      {"eval_s", outcome.at.eval_s},
      {"save_s", outcome.at.save_s},
      {"saves", double(counted("ckpt.saves"))},
      {"cpu_used", outcome.cpu.used},
      {"cpu_waited", outcome.cpu.waited},
      {"max_mem_allocated", peak}};
  if (outcome.at.target_s >= 0) values.emplace_back("target_s", outcome.at.target_s);
  if (session.plan.data.loader.batch.on_damaged == OnDamaged::skip) {
    const int64_t damaged = session.train_set->damaged() + session.test_set->damaged();
    values.emplace_back("damaged_samples", double(damaged));
  }
  if (const int64_t moved = migrations(); moved >= 0)
    values.emplace_back("cpu_migrations", double(moved));
  return values;
}

std::vector<ToggleUse> toggle_uses(const Config& config, const Counters& moved) {
  std::vector<ToggleUse> uses;
  for (const Toggle* toggle : toggles_on(config))
    uses.push_back(
        {toggle, config.toggles.at(toggle->name), trace::value_of(moved, toggle->footprint)});
  for (ToggleUse& use : uses)
    use.superseded = std::ranges::any_of(uses, [&](const ToggleUse& other) {
      return other.count && std::ranges::count(other.toggle->supersedes, use.toggle->name);
    });
  return uses;
}

Lines idle_toggles(const std::vector<ToggleUse>& uses) {
  std::string set, preset;  // toggles set by the user; toggles set by a default or a preset
  for (const auto& [toggle, value, count, superseded] : uses) {
    if (count || superseded) continue;
    const bool by_name = set_by_name(value);
    std::string& names = by_name ? set : preset;
    names += cat(names.empty() ? "" : ", ", toggle->name);
    if (by_name) names += cat(" (", toggle->footprint, " did not change)");
  }
  Lines lines;
  if (!set.empty()) lines.push_back("warning: these toggles were on but never ran: " + set);
  if (!preset.empty()) lines.push_back("these toggles had nothing to do here: " + preset);
  return lines;
}

Json end_of_run(const Lines& summary, const std::vector<ToggleUse>& uses) {
  Json all = Json::array();
  for (const auto& [toggle, value, count, superseded] : uses)
    all.push_back({{"name", toggle->name},
                   {"value", value.text},
                   {"count", count},
                   {"superseded", superseded}});
  return {{"summary", summary}, {"toggles", all}};
}

}  // namespace bellows
