// The verb `ladder`.
#include "trainer/ab/ladder.h"
#include <algorithm>
#include <set>
#include "core/base/output.h"
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

static Config config_with(const ArmOptions& options, const LadderToggles& toggles) {
  return config_of({.config = options.config, .set = settings_of(toggles)}, options.overrides);
}

static bool has(const LadderToggles& toggles, const std::string& name) {
  return std::ranges::any_of(toggles,
                             [&](const LadderToggle& t) { return t.toggle->name == name; });
}

// Returns the first toggle that this one needs and that is not there, or "".
static std::string missing(const LadderToggles& toggles, const Toggle& toggle) {
  for (const std::string& need : toggle.needs)
    if (find_toggle(need) && !has(toggles, need)) return need;
  return "";
}

// Returns why `next` cannot be the step after `toggles`, or "".
static std::string obstacle(const ArmOptions& options, LadderToggles toggles,
                            const LadderToggle& next) {
  const Config before = config_with(options, toggles);
  const std::string why = no_effect(*next.toggle, before.options.device, next.value);
  if (!why.empty()) return why;
  if (const std::string need = missing(toggles, *next.toggle); !need.empty())
    return cat("without ", need);
  toggles.push_back(next);
  try {
    const Config after = config_with(options, toggles);
    return dump(after.plan) == dump(before.plan) ? "changes nothing in this plan" : "";
  } catch (const Error& error) {
    return error.what();
  }
}

static LadderToggle parsed(const std::string& wanted) {
  const size_t equals = wanted.find('=');
  const Toggle& toggle = known_toggle(wanted.substr(0, equals), "ladder");
  return {&toggle, equals == wanted.npos ? suggested(toggle) : wanted.substr(equals + 1)};
}

static LadderPlan plan_wanted(const ArmOptions& options, const Names& wanted) {
  LadderPlan plan;
  for (const std::string& word : wanted) {
    const LadderToggle next = parsed(word);
    CHECK(!has(plan.toggles, next.toggle->name), "ladder: --toggles: '", word,
          "' is named twice; name each toggle once");
    const std::string why = obstacle(options, plan.toggles, next);
    CHECK(why.empty(), "ladder: --toggles: ", word, ": ", why);
    plan.toggles.push_back(next);
  }
  return plan;
}

LadderPlan plan_ladder(const ArmOptions& options, const Names& wanted) {
  if (!wanted.empty()) return plan_wanted(options, wanted);
  std::map<std::string, const Toggle*> open;  // by file
  LadderPlan plan;
  for (const Toggle& toggle : toggles())
    if (*toggle.fast)
      open[toggle.file] = &toggle;
    else
      plan.reasons["not in toggles: all"].push_back(toggle.name);
  // A toggle waits until those that it needs are there; the last pass leaves out what still waits.
  for (bool moved = true; moved || !open.empty();) {
    const bool last = !std::exchange(moved, false);
    for (auto at = open.begin(); at != open.end();) {
      const LadderToggle next = {at->second, at->second->fast};
      const std::string why = obstacle(options, plan.toggles, next);
      if (why.starts_with("without ") && !last) {
        ++at;
        continue;
      }
      if (why.empty())
        plan.toggles.push_back(next);
      else
        plan.reasons[why].push_back(next.toggle->name);
      at = open.erase(at);
      moved = true;
    }
  }
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
  for (const auto& [toggle, value] : plan.toggles) {
    if (footprint(*toggle, top) == 0) continue;
    kept.insert(toggle->name);
    kept.insert(toggle->supersedes.begin(), toggle->supersedes.end());
  }
  for (size_t i = plan.toggles.size(); i-- > 0;)  // needed ones come before
    if (kept.contains(plan.toggles[i].toggle->name))
      kept.insert(plan.toggles[i].toggle->needs.begin(), plan.toggles[i].toggle->needs.end());
  LadderToggles rest;
  for (const LadderToggle& t : plan.toggles)
    if (kept.contains(t.toggle->name))
      rest.push_back(t);
    else
      plan.reasons["never ran with all of them on"].push_back(t.toggle->name);
  plan.toggles = rest;
}

// ---- the arms

LadderResult ladder_arms(const ArmOptions& options, const LadderPlan& plan) {
  LadderResult result;
  result.options = options;
  result.plan = plan;
  const auto arm = [&](const std::string& name, const LadderToggles& toggles) {
    return AbArm{.name = name, .config = options.config, .set = settings_of(toggles)};
  };
  result.plain = arm("plain", {});
  result.placebo = placebo_of(result.plain);
  LadderToggles so_far;
  for (const LadderToggle& t : plan.toggles) {
    so_far.push_back(t);
    result.climb.push_back(arm(cat("+ ", t.toggle->name), so_far));
  }
  // Without the last one, it is the last step but one.
  for (size_t i = 0; i + 1 < plan.toggles.size(); ++i)
    result.without.push_back(
        arm(cat("- ", plan.toggles[i].toggle->name), left_out(plan.toggles, i)));
  return result;
}

// ---- the verb

static int run_ladder(CommandLine& line, const Arguments& args) {
  ArmOptions options = {.verb = "ladder", .processes = 5, .blocks = 4};
  std::string budget, wanted;
  declare_config(line, options);
  line.add_option("--toggles", wanted,
                  "the steps, in this order, such as num_workers=2,amp (default: all that can have "
                  "an effect here)");
  declare_rounds(line, options, budget);
  if (!line.read(args)) return 0;
  options.budget_s = budget_of("ladder", budget);
  check_report(options);
  for (const auto& [key, value] : parse_overrides(options.overrides))
    CHECK(!key.starts_with("toggles"), "ladder: ", key,
          ": each arm sets the toggles itself; choose the steps with --toggles");
  LadderPlan plan = plan_ladder(options, split(wanted));
  CHECK(!plan.toggles.empty(), "ladder: no toggle can have an effect here");
  check_alone("ladder", config_with(options, {}).plan.dist);

  AbArm plain{.name = "plain", .config = options.config, .set = settings_of({})};
  AbArm top{.name = "all", .config = options.config, .set = settings_of(plan.toggles)};
  const Pilot pilot = try_arms({&plain, &top}, options);
  if (wanted.empty()) drop_idle(plan, top);
  CHECK(!plan.toggles.empty(), "ladder: no toggle ran; raise --warmup or choose with --toggles");
  LadderResult result = ladder_arms(options, plan);
  std::vector<AbArm*> arms = {&result.plain, &result.placebo};
  for (auto* part : {&result.climb, &result.without})
    for (AbArm& arm : *part) arms.push_back(&arm);
  if (!wanted.empty())
    for (const auto& [toggle, value] : plan.toggles)
      result.words += cat(result.words.empty() ? " --toggles " : ",", toggle->name, "=", value);
  pilot.fit(result.options);
  for (const auto& [reason, names] : plan.reasons)
    say_part(message("ladder", cat("left out, ", reason, ": ", joined(names))));
  say_part(message("ladder", pilot.text(result.options, arms.size())));
  run_rounds(arms, result);
  return publish(result, to_markdown(result), to_json(result));
}

static const AddVerb ladder_verb({"ladder",
                                  "measures toggles one after the other, from plain to all on",
                                  "trainer ladder --config configs/lenet.yaml", run_ladder});

}  // namespace bellows
