// The verb `ladder`: choice of toggles, arms, and the report as Markdown that is readable
// unrendered, and as JSON.
#include "trainer/ab/ladder.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "dist/rendezvous/rendezvous.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/rounds.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// ---- choice of toggles

Names settings_of(const LadderToggles& toggles) {
  Names set = {"toggles=none"};
  for (const auto& [toggle, value] : toggles)
    set.push_back(cat("toggles.", toggle->name, "=", value));
  return set;
}

static AbArm arm_with(const ArmOptions& options, const LadderToggles& toggles) {
  return {.config = options.config, .set = settings_of(toggles)};
}

static bool has(const LadderToggles& toggles, const std::string& name) {
  return std::ranges::any_of(toggles,
                             [&](const LadderToggle& t) { return t.toggle->name == name; });
}

static std::string missing(const LadderToggles& toggles, const Toggle& toggle) {
  for (const std::string& need : toggle.needs)
    if (find_toggle(need) && !has(toggles, need)) return need;
  return "";
}

static std::string obstacle(const ArmOptions& options, LadderToggles toggles,
                            const LadderToggle& next) {
  const AbArm before = arm_with(options, toggles);
  const DeviceChoice device = load_config(before, options.overrides).options.device;
  const std::string why = no_effect(*next.toggle, device, next.value);
  if (!why.empty()) return why;
  if (const std::string need = missing(toggles, *next.toggle); !need.empty())
    return cat("without ", need);
  toggles.push_back(next);
  return no_other_run(before, arm_with(options, toggles), options.overrides);
}

static LadderPlan plan_wanted(const ArmOptions& options, const Names& wanted) {
  LadderPlan plan;
  for (const std::string& word : wanted) {
    const size_t equals = word.find('=');
    const Toggle& toggle = known_toggle(word.substr(0, equals), "ladder");
    CHECK(!has(plan.toggles, toggle.name), "ladder: --toggles: '", word,
          "' is named twice; name each toggle once");
    const LadderToggle next = {&toggle,
                               equals == word.npos ? suggested(toggle) : word.substr(equals + 1)};
    const std::string why = obstacle(options, plan.toggles, next);
    CHECK(why.empty(), "ladder: --toggles: ", word, ": ", why);
    plan.toggles.push_back(next);
  }
  return plan;
}

LadderPlan plan_ladder(const ArmOptions& options, const Names& wanted) {
  if (!wanted.empty()) return plan_wanted(options, wanted);
  LadderPlan plan;
  std::map<std::string, const Toggle*> by_file;
  for (const Toggle& toggle : toggles())
    if (*toggle.fast)
      by_file[toggle.file] = &toggle;
    else
      plan.reasons["not in toggles: all"].push_back(toggle.name);
  std::set<std::string> tried;
  const std::function<void(const Toggle&)> add = [&](const Toggle& toggle) {
    if (!*toggle.fast || !tried.insert(toggle.name).second) return;
    for (const std::string& need : toggle.needs)
      if (const Toggle* needed = find_toggle(need)) add(*needed);
    const LadderToggle next = {&toggle, toggle.fast};
    if (const std::string why = obstacle(options, plan.toggles, next); why.empty())
      plan.toggles.push_back(next);
    else
      plan.reasons[why].push_back(toggle.name);
  };
  for (const auto& [file, toggle] : by_file) add(*toggle);
  return plan;
}

LadderToggles left_out(const LadderToggles& toggles, size_t index) {
  LadderToggles rest;
  for (size_t i = 0; i < toggles.size(); ++i)
    if (i != index && missing(rest, *toggles[i].toggle).empty()) rest.push_back(toggles[i]);
  return rest;
}

void drop_idle(LadderPlan& plan, const AbArm& top) {
  std::set<std::string> kept;
  const auto keep = [&](const Names& names) { kept.insert(names.begin(), names.end()); };
  for (const auto& [toggle, value] : plan.toggles)
    if (footprint(*toggle, top) > 0) keep({toggle->name}), keep(toggle->supersedes);
  for (auto t = plan.toggles.rbegin(); t != plan.toggles.rend(); ++t)  // needed ones come first
    if (kept.contains(t->toggle->name)) keep(t->toggle->needs);
  std::erase_if(plan.toggles, [&](const LadderToggle& t) {
    if (kept.contains(t.toggle->name)) return false;
    plan.reasons["never ran with all of them on"].push_back(t.toggle->name);
    return true;
  });
}

LadderResult ladder_arms(const ArmOptions& options, const LadderPlan& plan) {
  LadderResult result;
  result.options = options;
  result.plan = plan;
  const auto add = [&](const std::string& name, const LadderToggles& toggles) {
    result.arms.push_back({name, options.config, settings_of(toggles)});
  };
  add("plain", {});
  LadderToggles so_far;
  for (const LadderToggle& t : plan.toggles) {
    so_far.push_back(t);
    add(cat("+ ", t.toggle->name), so_far);
  }
  for (size_t i = 0; i + 1 < plan.toggles.size(); ++i)
    add(cat("- ", plan.toggles[i].toggle->name), left_out(plan.toggles, i));
  result.placebo = make_placebo(result.arms.front());
  return result;
}

Json to_json(const LadderResult& result) {
  Json steps = Json::array(), ablation = Json::array();
  for (size_t i = 0; i < result.steps(); ++i) {
    const auto& [toggle, value] = result.plan.toggles[i];
    Json step = arm_json(result.step(i), result.options);
    step["toggle"] = toggle->name;
    step["value"] = value;
    const Speedup over_plain = speedup(result, result.step(i));
    const Speedup over_before = speedup(result, {&result.before(i)}, result.step(i));
    step["speedup"] = speedup_json(i == 0 ? over_plain : over_before, result);
    step["speedup_over_plain"] = speedup_json(over_plain, result);
    step["footprint"] = toggle->footprint;
    step["ran"] = footprint(*toggle, result.step(i)) > 0;
    step["counters_per_step"] = counters_json(result.before(i), result.step(i));
    steps.push_back(step);
    Json without = arm_json(result.without(i), result.options);
    without["toggle"] = toggle->name;
    without["slowdown"] = speedup_json(speedup(result, {&result.without(i)}, result.all()), result);
    ablation.push_back(without);
  }
  return report_json("ladder", result,
                     {{"config", result.options.config},
                      {"left_out", result.plan.reasons},
                      {"plain", arm_json(result.arms.front(), result.options)},
                      {"steps", steps},
                      {"without", ablation}});
}

static double cost(const LadderResult& result, const AbArm& arm) {
  return median(costs(arm, result.options, &AbBlock::wall_s));
}

static std::pair<std::string, std::string> tables(const LadderResult& result) {
  const Json report = to_json(result);
  Json steps = {report["plain"]}, without = report["without"];
  steps[0]["s"] = cost(result, result.arms.front());
  for (size_t i = 0; i < result.steps(); ++i) {
    Json& step = steps.emplace_back(report["steps"][i]);
    step["s"] = cost(result, result.step(i));
    step["ran"] = step["ran"].get<bool>() ? "ran" : "never ran";
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

static int run_ladder(CommandLine& line, const Arguments& args) {
  ArmOptions options = {.verb = "ladder", .processes = 5, .blocks = 4};
  std::string budget, wanted;
  declare_config(line, options);
  line.add_option("--toggles", wanted,
                  "the steps, in this order, such as num_workers=2,amp (default: all that can have "
                  "an effect here)");
  declare_rounds(line, options, budget);
  if (!line.read(args)) return 0;
  prepare(options, budget);
  for (const auto& [key, value] : parse_overrides(options.overrides))
    CHECK(!key.starts_with("toggles"), "ladder: ", key,
          ": each arm sets the toggles itself; choose the steps with --toggles");
  LadderPlan plan = plan_ladder(options, split(wanted));
  CHECK(!plan.toggles.empty(), "ladder: no toggle can have an effect here");
  check_alone("ladder", load_config(arm_with(options, {}), options.overrides).plan.dist);

  const Signals signals;
  std::vector<AbArm> ends = {{"plain", options.config, settings_of({})},
                             {"all", options.config, settings_of(plan.toggles)}};
  Pilot pilot = try_arms(ends, options, signals);
  pilot.usable = 0.47;  // two rounds, because one has no interval; slow machines end one
  if (wanted.empty() && !ends[1].processes.empty()) drop_idle(plan, ends[1]);
  CHECK(!plan.toggles.empty(), "ladder: no toggle ran; raise --warmup or choose with --toggles");
  // Arms: plain, its placebo and, per toggle, a step and an arm without it, which the last lacks.
  const size_t fits = std::max<size_t>(pilot.fit(options, 2 * plan.toggles.size() + 1), 1);
  const size_t kept = std::clamp<size_t>((fits - 1) / 2, 1, plan.toggles.size());
  for (size_t i = kept; i < plan.toggles.size(); ++i)
    plan.reasons["no time in the budget"].push_back(plan.toggles[i].toggle->name);
  plan.toggles.resize(kept);
  LadderResult result = ladder_arms(options, plan);
  if (!wanted.empty())
    for (const auto& [toggle, value] : plan.toggles)
      result.words += cat(result.words.empty() ? " --toggles " : ",", toggle->name, "=", value);
  for (const auto& [reason, names] : plan.reasons)
    announce("ladder", cat("left out, ", reason, ": ", joined(names)));
  const size_t arms = result.arms.size() + 1;
  pilot.fit_all(result.options, arms);
  announce("ladder", pilot.text(result.options, arms));
  run_rounds(result, signals);
  return publish(result, to_markdown(result), to_json(result));
}

static const AddVerb ladder_verb({"ladder",
                                  "measures toggles one after the other, from plain to all on",
                                  "trainer ladder --config configs/lenet.yaml", run_ladder});

}  // namespace bellows
