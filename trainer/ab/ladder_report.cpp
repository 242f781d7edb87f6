// Results of `trainer ladder` as Markdown that is readable unrendered, and as JSON.
#include <fmt/format.h>
#include <cmath>
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/ladder.h"

namespace bellows {

Speedup step_speedup(const LadderResult& result, size_t i) {
  if (i == 0) return speedup(result, result.climb[0]);
  return arm_speedup(result, {&result.climb[i - 1]}, result.climb[i]);
}

// The arm without toggle i. Without the last one, it is the last step but one.
static const AbArm& arm_without(const LadderResult& result, size_t i) {
  if (i < result.without.size()) return result.without[i];
  return result.climb.size() > 1 ? result.climb[i - 1] : result.plain;
}

Speedup lost_without(const LadderResult& result, size_t i) {
  return arm_speedup(result, {&arm_without(result, i)}, result.climb.back());
}

// ---- Markdown

static double cost(const LadderResult& result, const AbArm& arm) {
  return median(costs_of(arm, result.options, Clock::wall));
}

static const char* ran(const LadderResult& result, size_t i) {
  return footprint(*result.plan.toggles[i].toggle, result.climb[i]) ? "ran" : "never ran";
}

static std::string climb_table(const LadderResult& result) {
  std::vector<Names> rows = {{"", "ms", "x the step before", "x plain", "footprint"},
                             {"plain", ms(cost(result, result.plain)), "", "", ""}};
  for (size_t i = 0; i < result.climb.size(); ++i)
    rows.push_back({result.climb[i].name, ms(cost(result, result.climb[i])),
                    marked(step_speedup(result, i), result),
                    fmt::format("{:.2f}", speedup(result, result.climb[i]).ratio), ran(result, i)});
  return markdown_table(rows);
}

static std::string ablation_table(const LadderResult& result) {
  std::vector<Names> rows = {{"", "ms", "times as long as all"}};
  for (size_t i = 0; i < result.climb.size(); ++i)
    rows.push_back({cat("- ", result.plan.toggles[i].toggle->name),
                    ms(cost(result, arm_without(result, i))),
                    marked(lost_without(result, i), result)});
  return markdown_table(rows);
}

// Returns "x 3 -> 1, y 0 -> 40": the counters per step that the step changed.
static std::string counters_text(const AbArm& before, const AbArm& after) {
  Names all;
  for (const auto& [name, off, on] : differing_counters(before, after))
    all.push_back(fmt::format("`{}` {:.4g} -> {:.4g}", name, off, on));
  return joined(all, "none");
}

static const AbArm& arm_before(const LadderResult& result, size_t i) {
  return i == 0 ? result.plain : result.climb[i - 1];
}

static std::string bars(const LadderResult& result) {
  constexpr int kWidth = 48;
  std::vector<const AbArm*> arms = {&result.plain};
  for (const AbArm& arm : result.climb) arms.push_back(&arm);
  double slowest = 0;
  for (const AbArm* arm : arms) slowest = std::max(slowest, cost(result, *arm));
  std::string text;
  for (const AbArm* arm : arms) {
    const auto length = size_t(std::lround(kWidth * cost(result, *arm) / slowest));
    text +=
        fmt::format("    {:<24} {}\n", arm->name, std::string(std::max<size_t>(length, 1), '#'));
  }
  return text;
}

static std::string headline(const LadderResult& result) {
  return fmt::format("{}, from {} to {} ms a step",
                     ratio_text(speedup(result, result.climb.back())),
                     ms(cost(result, result.plain)), ms(cost(result, result.climb.back())));
}

std::string to_markdown(const LadderResult& result) {
  std::string text = cat("# ", printable(result.options.config), ", from plain to all\n\n**",
                         headline(result), "**\n\n", rounds_list(result));
  for (const auto& [reason, names] : result.plan.reasons)
    text += list_item(cat("left out, ", reason, ": ", joined(names)));
  text += cat(
      "\n## One toggle added at a time\n\n", climb_table(result), "\n", bars(result),
      "\nTimes are medians of the blocks. A ratio has its interval, one of many, and *\nmarks a "
      "difference beyond the noise of the placebo.\n\n## One toggle left out\n\n",
      ablation_table(result), "\n## Counters per step that each toggle changed\n\n");
  for (size_t i = 0; i < result.climb.size(); ++i)
    text += list_item(cat(result.plan.toggles[i].toggle->name, ": ",
                          counters_text(arm_before(result, i), result.climb[i])));
  return text + "\n" + measurement_text(result);
}

// ---- JSON

Json to_json(const LadderResult& result) {
  Json steps = Json::array(), ablation = Json::array();
  for (size_t i = 0; i < result.climb.size(); ++i) {
    const auto& [toggle, value] = result.plan.toggles[i];
    Json step = arm_json(result.climb[i], result.options);
    step["toggle"] = toggle->name;
    step["value"] = value;
    step["speedup"] = speedup_json(step_speedup(result, i), result);
    step["speedup_over_plain"] = speedup_json(speedup(result, result.climb[i]), result);
    step["footprint"] = toggle->footprint;
    step["ran"] = footprint(*toggle, result.climb[i]) > 0;
    step["counters_per_step"] = counters_json(arm_before(result, i), result.climb[i]);
    steps.push_back(step);
    Json without = arm_json(arm_without(result, i), result.options);
    without["toggle"] = toggle->name;
    without["slowdown"] = speedup_json(lost_without(result, i), result);
    ablation.push_back(without);
  }
  return {{"kind", "ladder"},
          {"config", result.options.config},
          {"command", command_of(result)},
          {"left_out", result.plan.reasons},
          {"plain", arm_json(result.plain, result.options)},
          {"placebo", placebo_json(result)},
          {"steps", steps},
          {"without", ablation},
          {"busy", result.busy.reasons()},
          {"machine", result.machine}};
}

}  // namespace bellows
