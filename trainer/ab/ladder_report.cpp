// Results of `trainer ladder` as Markdown that is readable unrendered, and as JSON.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/ladder.h"

namespace bellows {

Speedup step_speedup(const LadderResult& result, size_t i) {
  return i == 0 ? speedup(result, result.step(0))
                : speedup(result, {&result.before(i)}, result.step(i));
}

Speedup lost_without(const LadderResult& result, size_t i) {
  return speedup(result, {&result.without(i)}, result.all());
}

static bool ran(const LadderResult& result, size_t i) {
  return footprint(*result.plan.toggles[i].toggle, result.step(i)) > 0;
}

// ---- JSON

Json to_json(const LadderResult& result) {
  Json steps = Json::array(), ablation = Json::array();
  for (size_t i = 0; i < result.steps(); ++i) {
    const auto& [toggle, value] = result.plan.toggles[i];
    Json step = arm_json(result.step(i), result.options);
    step["toggle"] = toggle->name;
    step["value"] = value;
    step["speedup"] = speedup_json(step_speedup(result, i), result);
    step["speedup_over_plain"] = speedup_json(speedup(result, result.step(i)), result);
    step["footprint"] = toggle->footprint;
    step["ran"] = ran(result, i);
    step["counters_per_step"] = counters_json(result.before(i), result.step(i));
    steps.push_back(step);
    Json without = arm_json(result.without(i), result.options);
    without["toggle"] = toggle->name;
    without["slowdown"] = speedup_json(lost_without(result, i), result);
    ablation.push_back(without);
  }
  return {{"kind", "ladder"},
          {"config", result.options.config},
          {"command", command_of(result)},
          {"left_out", result.plan.reasons},
          {"plain", arm_json(result.arms.front(), result.options)},
          {"placebo", placebo_json(result)},
          {"steps", steps},
          {"without", ablation},
          {"busy", result.busy.reasons()},
          {"machine", result.machine}};
}

// ---- Markdown

static double cost(const LadderResult& result, const AbArm& arm) {
  return median(costs(arm, result.options, &AbBlock::wall_s));
}

// Tables of the steps, after the plain arm, and of the arms without one toggle each.
static std::pair<std::string, std::string> tables(const LadderResult& result) {
  const Json report = to_json(result);
  Json steps = {report["plain"]}, without = report["without"];
  steps[0]["s"] = cost(result, result.arms.front());
  for (size_t i = 0; i < result.steps(); ++i) {
    Json& step = steps.emplace_back(report["steps"][i]);
    step["s"] = cost(result, result.step(i));
    step["ran"] = ran(result, i) ? "ran" : "never ran";
    without[i]["s"] = cost(result, result.without(i));
    without[i]["name"] = cat("- ", result.plan.toggles[i].toggle->name);
  }
  const ArmColumn name = {"", "name"}, time = {"ms", "s", "{:.4g}", 1e3};
  return {markdown_table(steps, {name,
                                 time,
                                 {"x the step before", "speedup", "", 1, ""},
                                 {"x plain", "speedup_over_plain/ratio", "{:.2f}", 1, ""},
                                 {"footprint", "ran", "", 1, ""}}),
          markdown_table(without, {name, time, {"times as long as all", "slowdown"}})};
}

// Returns "x 3 -> 1, y 0 -> 40": the counters per step that the step changed.
static std::string counters_text(const AbArm& before, const AbArm& after) {
  Names all;
  for (const auto& [name, off, on] : differing_counters(before, after))
    all.push_back(fmt::format("`{}` {:.4g} -> {:.4g}", name, off, on));
  return joined(all, "none");
}

static std::string bars(const LadderResult& result) {
  constexpr double kWidth = 48;
  std::vector<double> times;
  for (size_t row = 0; row <= result.steps(); ++row)
    times.push_back(cost(result, result.before(row)));
  std::string text;
  for (size_t row = 0; row < times.size(); ++row) {
    const auto length = std::lround(kWidth * times[row] / std::ranges::max(times));
    text += fmt::format("    {:<24} {}\n", result.before(row).name,
                        std::string(size_t(std::max(length, 1L)), '#'));
  }
  return text;
}

std::string to_markdown(const LadderResult& result) {
  const AbArm& all = result.all();
  const auto [climb, ablation] = tables(result);
  std::string text =
      cat("# ", printable(result.options.config), ", from plain to all\n\n**",
          ratio_text(speedup(result, all)), ", from ", ms(cost(result, result.arms.front())),
          " to ", ms(cost(result, all)), " ms a step**\n\n", rounds_list(result));
  for (const auto& [reason, names] : result.plan.reasons)
    text += list_item(cat("left out, ", reason, ": ", joined(names)));
  text += cat(
      "\n## One toggle added at a time\n\n", climb, "\n", bars(result),
      "\nTimes are medians of the blocks. A ratio has its interval, one of many, and *\nmarks a "
      "difference beyond the noise of the placebo.\n\n## One toggle left out\n\n",
      ablation, "\n## Counters per step that each toggle changed\n\n");
  for (size_t i = 0; i < result.steps(); ++i)
    text += list_item(cat(result.plan.toggles[i].toggle->name, ": ",
                          counters_text(result.before(i), result.step(i))));
  return text + "\n" + measurement_text(result);
}

}  // namespace bellows
