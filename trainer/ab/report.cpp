// Results of `trainer ab` as Markdown that is readable unrendered, and as JSON.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/words.h"
#include "trainer/ab/ab.h"
#include "trainer/ab/arm_report.h"

namespace bellows {

static std::string title(const AbResult& result) {
  Names on;
  for (const AbArm& arm : result.on) on.push_back(arm.name);
  return cat(result.off.name, " against ", joined(on));
}

static std::string verdict_text(Verdict verdict) {
  if (verdict == Verdict::faster) return "faster";
  if (verdict == Verdict::slower) return "slower";
  if (verdict == Verdict::no_difference) return "no difference shown";
  return fmt::format("no conclusion from fewer than {} processes a side", kFewestRounds);
}

static std::string busy_text(const AbResult& result) {
  const Names reasons = result.busy.reasons();
  if (reasons.empty()) return "";
  std::string text = "; busy machine: " + joined(reasons);
  if (result.options.clock == Clock::wall && result.options.ranks == 1)
    text += result.one_thread ? "; try --clock cpu"
                              : "; try --clock cpu threads.threads=1, which suits one thread";
  return text;
}

std::string headline(const AbResult& result, const AbArm& on) {
  const Speedup measured = speedup(result, on), placebo = placebo_speedup(result);
  const TargetOptions& target = result.options.target;
  if (const int64_t missed = misses(result))
    return fmt::format("no conclusion: {} ended before {}={:g}{}", count_of(missed, "run"),
                       target.metric, target.value, busy_text(result));
  return fmt::format("{}{}: {}; placebo {:.3f} x, {} processes a side{}",
                     result.toggle && footprint(*result.toggle, on) == 0 ? "did not run; " : "",
                     verdict_text(judge(measured, placebo)), ratio_text(measured), placebo.ratio,
                     measured.rounds, busy_text(result));
}

// ---- Markdown

static std::string spread_text(const std::vector<double>& values, double unit = 1) {
  if (values.empty()) return "-";
  return fmt::format("{:.4g} ({:.4g} to {:.4g})", unit * median(values),
                     unit * quantile(values, 0.25), unit * quantile(values, 0.75));
}

static std::string cost_text(const AbArm& arm, const ArmOptions& options, Clock clock) {
  return spread_text(costs_of(arm, options, clock), 1e3);
}

static std::string mean_text(const AbArm& arm, const ArmOptions& options) {
  const Speedup mean = mean_run_s(arm, options);
  return fmt::format("{:.4g}", 1e3 * mean.ratio) +
         (mean.rounds < 2 ? ""
                          : fmt::format(" ({:.4g} to {:.4g})", 1e3 * mean.interval.low,
                                        1e3 * mean.interval.high));
}

static std::string samples_text(const AbArm& arm) {
  std::vector<double> samples;
  for (const AbProcess& process : arm.processes) samples.push_back(double(process.end.samples));
  return fmt::format("{:.0f} ({:.0f}, {:.0f})", median(samples), quantile(samples, 0),
                     quantile(samples, 1));
}

// One row per quantity, one column per arm.
static std::string arm_table(const AbResult& result) {
  std::vector<const AbArm*> arms = {&result.off};
  for (const AbArm& arm : result.on) arms.push_back(&arm);
  std::string text = "| |";
  for (const AbArm* arm : arms) text += cat(" ", arm->name, " |");
  text += "\n|---|";
  for (size_t i = 0; i < arms.size(); ++i) text += "---|";
  text += "\n";
  const auto row = [&](const char* what, const std::function<std::string(const AbArm&)>& of) {
    text += fmt::format("| {} |", what);
    for (const AbArm* arm : arms) text += cat(" ", of(*arm), " |");
    text += "\n";
  };
  const ArmOptions& o = result.options;
  const bool whole_runs = o.measure == AbMeasure::target;
  row(whole_runs ? "wall time per run, ms: median (quartiles)"
                 : "wall time per step, ms: median of the blocks (quartiles)",
      [&](const AbArm& arm) { return cost_text(arm, o, Clock::wall); });
  if (whole_runs)
    row("wall time per run, ms: geometric mean of all seeds (95 % interval)",
        [&](const AbArm& arm) { return mean_text(arm, o); });
  row(whole_runs ? "CPU time per run, ms" : "CPU time per step, ms",
      [&](const AbArm& arm) { return cost_text(arm, o, Clock::cpu); });
  if (std::ranges::any_of(arms, [&](const AbArm* arm) { return !energies_of(*arm, o).empty(); }))
    row(whole_runs ? "energy of the GPU per run, J: median (quartiles)"
                   : "energy of the GPU per step, J: median (quartiles)",
        [&](const AbArm& arm) { return spread_text(energies_of(arm, o)); });
  if (whole_runs) row("samples per run: median (smallest, largest)", samples_text);
  row("blocks that were outliers", [&](const AbArm& arm) {
    return std::to_string(count_outliers(costs_of(arm, o, Clock::wall)));
  });
  row("peak of tensors, MB", [](const AbArm& arm) { return megabytes(tensor_bytes(arm)); });
  row("peak of the process, MB", [](const AbArm& arm) { return megabytes(resident_bytes(arm)); });
  row("threads of the pool",
      [](const AbArm& arm) { return std::to_string(arm.processes.front().end.threads); });
  row("CPU time while it was stopped, ms", [&](const AbArm& arm) {
    return fmt::format("{:.3f}",
                       1e3 * largest(arm, [](const AbProcess& p) { return p.cpu_s_waiting; }));
  });
  return text;
}

static std::string counter_table(const AbArm& off_arm, const AbArm& on_arm) {
  const auto rates = differing_counters(off_arm, on_arm);
  if (rates.empty()) return "No counter differs.\n";
  std::string text =
      fmt::format("| counter, per step | {} | {} |\n|---|---|---|\n", off_arm.name, on_arm.name);
  for (const auto& [name, off, on] : rates)
    text += fmt::format("| `{}` | {:.4g} | {:.4g} |\n", name, off, on);
  return text;
}

std::string forced_off_text(const AbResult& result) {
  return fmt::format("off in all arms, because they need {}: {}", result.toggle->name,
                     fmt::join(result.forced_off, ", "));
}

// Findings about one arm, as items of a list.
static std::string findings_text(const AbResult& result, const AbArm& on) {
  const auto mark = [](const Finding& finding) { return finding.good ? "" : "**FAILED** "; };
  const Finding losses = compare_losses(result, on), evaluations = compare_evaluations(result, on);
  std::string text;
  if (result.toggle) {
    const Finding footprints = compare_footprints(*result.toggle, result.off, on);
    text = fmt::format("- footprint: {}{}\n", mark(footprints), footprints.text);
  }
  text += fmt::format("- loss: {}{}\n", mark(losses), losses.text);
  text += fmt::format("- evaluation: {}{}\n", mark(evaluations), evaluations.text);
  if (const double between = speedup(result, on).between; !std::isnan(between))
    text += fmt::format("- luck of a process: {:.0f} % of the variance lies between processes\n",
                        100 * between);
  return text;
}

std::string to_markdown(const AbResult& result) {
  const bool several = result.on.size() > 1;
  std::string text = fmt::format("# {}\n\n", title(result));
  for (const AbArm& on : result.on)
    text += fmt::format("**{}{}**\n\n", several ? on.name + ": " : "", headline(result, on));
  if (const Toggle* toggle = result.toggle)
    text += fmt::format("- claim: {}\n- cost: {}\n", toggle->claim, toggle->cost);
  for (const std::string& difference : result.differences)
    text += fmt::format("- difference: {}\n", difference);
  if (!result.forced_off.empty()) text += fmt::format("- {}\n", forced_off_text(result));
  text += ended_early(result);
  text += fmt::format("- placebo, {} against itself: {}\n", result.off.name,
                      ratio_text(placebo_speedup(result)));
  if (!several) text += findings_text(result, result.on.front());
  text += "\n" + arm_table(result) + "\n";
  for (const AbArm& on : result.on) {
    if (several) text += fmt::format("## {}\n\n{}\n", on.name, findings_text(result, on));
    text += counter_table(result.off, on) + "\n";
  }
  return text + measurement_text(result);
}

// ---- JSON

static Json on_json(const AbResult& result, const AbArm& on) {
  const Finding losses = compare_losses(result, on), evaluations = compare_evaluations(result, on);
  const Divergence apart = divergence(result, on);
  Json json = arm_json(on, result.options);
  json["verdict"] = headline(result, on);
  json["answer"] = misses(result)
                       ? "no conclusion"
                       : verdict_text(judge(speedup(result, on), placebo_speedup(result)));
  json["speedup"] = speedup_json(speedup(result, on), result);
  json["losses_hold"] = losses.good;
  json["losses"] = losses.text;
  json["evaluations_hold"] = evaluations.good;
  json["evaluations"] = evaluations.text;
  json["losses_apart"] = {{"arms", apart.arms}, {"placebo", apart.placebo}};
  if (!apart.allowed.empty()) json["losses_apart"]["allowed"] = apart.allowed;
  if (result.toggle) {
    const Finding footprints = compare_footprints(*result.toggle, result.off, on);
    json["footprint_holds"] = footprints.good;
    json["footprint"] = footprints.text;
  }
  json["counters_per_step"] = counters_json(result.off, on);
  return json;
}

Json to_json(const AbResult& result) {
  Json on = Json::array();
  for (const AbArm& arm : result.on) on.push_back(on_json(result, arm));
  return {{"kind", "ab"},
          {"toggle", result.toggle ? result.toggle->name : ""},
          {"claim", result.toggle ? result.toggle->claim : ""},
          {"held", result.forced_off},
          {"differences", result.differences},
          {"command", command_of(result)},
          {"clock", result.options.clock == Clock::wall ? "wall" : "cpu"},
          {"off", arm_json(result.off, result.options)},
          {"placebo", placebo_json(result)},
          {"on", on},
          {"busy", result.busy.reasons()},
          {"machine", result.machine}};
}

}  // namespace bellows
