// Results of `trainer ab` as Markdown that is readable unrendered, and as JSON.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/words.h"
#include "plan/toggle.h"
#include "trainer/ab/ab.h"
#include "trainer/ab/arm_report.h"

namespace bellows {

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
  if (result.options.verb == "ab" && result.options.clock == Clock::wall &&
      result.options.ranks == 1)
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

static std::string range_text(double middle, double low, double high) {
  return fmt::format("{:.4g} ({:.4g} to {:.4g})", middle, low, high);
}

static std::string spread_text(std::vector<double> values, double unit) {
  for (double& value : values) value *= unit;
  return range_text(median(values), quantile(values, 0.25), quantile(values, 0.75));
}

static std::string mean_text(const Speedup& mean) {
  if (mean.rounds < 2) return ms(mean.ratio);
  return range_text(1e3 * mean.ratio, 1e3 * mean.interval.low, 1e3 * mean.interval.high);
}

static std::string samples_text(const AbArm& arm) {
  std::vector<double> samples;
  for (const AbProcess& process : arm.processes) samples.push_back(double(process.end.samples));
  return fmt::format("{:.0f} ({:.0f}, {:.0f})", median(samples), quantile(samples, 0),
                     quantile(samples, 1));
}

static std::string arm_table(const AbResult& result) {
  std::vector<Names> rows = {{""}};
  for (const AbArm& arm : result.arms) rows[0].push_back(arm.name);
  const auto add = [&](const std::string& quantity, const auto& text_of) {
    Names& row = rows.emplace_back(Names{quantity});
    for (const AbArm& arm : result.arms) row.push_back(text_of(arm));
  };
  const ArmOptions& o = result.options;
  const bool whole_runs = o.measure == AbMeasure::target;
  const std::string unit = whole_runs ? "run" : "step";
  const auto wall = [&](const AbArm& arm) { return costs(arm, o, &AbBlock::wall_s); };
  const auto energy_text = [&](const AbArm& arm) {
    const std::vector<double> joules = costs(arm, o, &AbBlock::energy_j);
    return std::ranges::max(joules) > 0 ? spread_text(joules, 1) : "-";
  };
  add(cat("wall time per ", unit, ", ms: median ", whole_runs ? "" : "of the blocks ",
          "(quartiles)"),
      [&](const AbArm& arm) { return spread_text(wall(arm), 1e3); });
  if (whole_runs)
    add("wall time per run, ms: geometric mean of all seeds (95 % interval)",
        [&](const AbArm& arm) { return mean_text(mean_run_s(arm, o)); });
  add(cat("CPU time per ", unit, ", ms"),
      [&](const AbArm& arm) { return spread_text(costs(arm, o, &AbBlock::cpu_s), 1e3); });
  if (std::ranges::any_of(result.arms, [&](const AbArm& arm) { return energy_text(arm) != "-"; }))
    add(cat("energy of the GPU per ", unit, ", J: median (quartiles)"), energy_text);
  if (whole_runs) add("samples per run: median (smallest, largest)", samples_text);
  add("blocks that were outliers",
      [&](const AbArm& arm) { return std::to_string(count_outliers(wall(arm))); });
  const auto add_peak = [&](const std::string& of, int64_t AbEnd::*bytes) {
    add(cat("peak of ", of, ", MB"),
        [&](const AbArm& arm) { return fmt::format("{:.2f}", 1e-6 * double(peak(arm, bytes))); });
  };
  add_peak("tensors", &AbEnd::peak_tensor_bytes);
  add_peak("the process", &AbEnd::peak_resident_bytes);
  add("threads of the pool",
      [](const AbArm& arm) { return std::to_string(arm.processes.front().end.threads); });
  add("CPU time while it was stopped, ms", [](const AbArm& arm) {
    const auto waited = &AbProcess::cpu_s_waiting;
    const double most_s = std::ranges::max_element(arm.processes, {}, waited)->cpu_s_waiting;
    return fmt::format("{:.3f}", 1e3 * most_s);
  });
  return markdown_table(rows);
}

static std::string counter_table(const AbArm& off_arm, const AbArm& on_arm) {
  std::vector<Names> rows = {{"counter, per step", off_arm.name, on_arm.name}};
  for (const auto& [name, off, on] : differing_counters(off_arm, on_arm))
    rows.push_back({cat("`", name, "`"), fmt::format("{:.4g}", off), fmt::format("{:.4g}", on)});
  return rows.size() == 1 ? "No counter differs.\n" : markdown_table(rows);
}

std::string forced_off_text(const AbResult& result) {
  return fmt::format("off in all arms, because they need {}: {}", result.toggle->name,
                     fmt::join(result.forced_off, ", "));
}

static std::string findings_text(const AbResult& result, const AbArm& on) {
  std::string text;
  const auto add = [&](const char* subject, const Finding& finding) {
    text += cat("- ", subject, ": ", finding.good ? "" : "**FAILED** ", finding.text, "\n");
  };
  if (result.toggle) add("footprint", compare_footprints(*result.toggle, result.off(), on));
  add("loss", compare_losses(result, on));
  add("evaluation", compare_evaluations(result, on));
  if (const double between = speedup(result, on).between; !std::isnan(between))
    text += fmt::format("- luck of a process: {:.0f} % of the variance lies between processes\n",
                        100 * between);
  return text;
}

std::string to_markdown(const AbResult& result) {
  const bool several = result.on().size() > 1;
  Names names;
  for (const AbArm& on : result.on()) names.push_back(on.name);
  std::string text = fmt::format("# {} against {}\n\n", result.off().name, joined(names));
  for (const AbArm& on : result.on())
    text += fmt::format("**{}{}**\n\n", several ? on.name + ": " : "", headline(result, on));
  if (const Toggle* toggle = result.toggle)
    text += fmt::format("- claim: {}\n- cost: {}\n", toggle->claim, toggle->cost);
  for (const std::string& difference : result.differences)
    text += fmt::format("- difference: {}\n", difference);
  if (!result.forced_off.empty()) text += fmt::format("- {}\n", forced_off_text(result));
  text += ended_early(result);
  text += planted_item(result);
  text += fmt::format("- placebo, {} against itself: {}\n", result.off().name,
                      ratio_text(placebo_speedup(result)));
  if (!several) text += findings_text(result, result.on().front());
  text += "\n" + arm_table(result) + "\n";
  for (const AbArm& on : result.on()) {
    if (several) text += fmt::format("## {}\n\n{}\n", on.name, findings_text(result, on));
    text += counter_table(result.off(), on) + "\n";
  }
  return text + measurement_text(result);
}

static Json on_json(const AbResult& result, const AbArm& on) {
  Json json = arm_json(on, result.options);
  const auto add = [&](const std::string& key, const Finding& finding) {
    json[key + (key == "footprint" ? "_holds" : "_hold")] = finding.good;
    json[key] = finding.text;
  };
  json["verdict"] = headline(result, on);
  json["answer"] = misses(result)
                       ? "no conclusion"
                       : verdict_text(judge(speedup(result, on), placebo_speedup(result)));
  json["speedup"] = speedup_json(speedup(result, on), result);
  add("losses", compare_losses(result, on));
  add("evaluations", compare_evaluations(result, on));
  if (result.toggle) add("footprint", compare_footprints(*result.toggle, result.off(), on));
  const Divergence apart = divergence(result, on);
  json["losses_apart"] = {{"arms", apart.arms}, {"placebo", apart.placebo}};
  if (!apart.allowed.empty()) json["losses_apart"]["allowed"] = apart.allowed;
  json["counters_per_step"] = counters_json(result.off(), on);
  return json;
}

Json to_json(const AbResult& result) {
  Json on = Json::array();
  for (const AbArm& arm : result.on()) on.push_back(on_json(result, arm));
  return report_json("ab", result,
                     {{"toggle", result.toggle ? result.toggle->name : ""},
                      {"claim", result.toggle ? result.toggle->claim : ""},
                      {"held", result.forced_off},
                      {"differences", result.differences},
                      {"clock", result.options.clock == Clock::wall ? "wall" : "cpu"},
                      {"off", arm_json(result.off(), result.options)},
                      {"on", on}});
}

}  // namespace bellows
