// The verb `ladder`.
#include "trainer/ab/ladder.h"
#include <algorithm>
#include <set>
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

namespace {
// What keeps a toggle from being the next step.
struct Obstacle {
  enum class Kind { none, waits, permanent } kind = Kind::none;  // waits: for another toggle
  std::string text = {};
};
}  // namespace

static Obstacle obstacle(const ArmOptions& options, LadderToggles toggles,
                         const LadderToggle& next) {
  using Kind = Obstacle::Kind;
  const Config before = config_with(options, toggles);
  const std::string why = no_effect(*next.toggle, before.options.device, next.value);
  if (!why.empty()) return {Kind::permanent, why};
  if (const std::string need = missing(toggles, *next.toggle); !need.empty())
    return {Kind::waits, cat("without ", need)};
  toggles.push_back(next);
  try {
    const Config after = config_with(options, toggles);
    if (dump(after.plan) != dump(before.plan)) return {};
    return {Kind::permanent, "changes nothing in this plan"};
  } catch (const Error& error) {
    return {Kind::permanent, error.what()};
  }
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
    const Obstacle found = obstacle(options, plan.toggles, next);
    CHECK(found.kind == Obstacle::Kind::none, "ladder: --toggles: ", word, ": ", found.text);
    plan.toggles.push_back(next);
  }
  return plan;
}

LadderPlan plan_ladder(const ArmOptions& options, const Names& wanted) {
  if (!wanted.empty()) return plan_wanted(options, wanted);
  LadderPlan plan;
  LadderToggles open;
  for (const Toggle& toggle : toggles())
    if (*toggle.fast)
      open.push_back({&toggle, toggle.fast});
    else
      plan.reasons["not in toggles: all"].push_back(toggle.name);
  std::ranges::sort(open, {}, [](const LadderToggle& t) { return t.toggle->file; });
  // A toggle waits until those that it needs are there. What still waits when no more toggles are
  // added is left out.
  for (size_t before = SIZE_MAX; !open.empty();) {
    const bool last = open.size() == std::exchange(before, open.size());
    LadderToggles waiting;
    for (const LadderToggle& next : open) {
      const Obstacle found = obstacle(options, plan.toggles, next);
      if (found.kind == Obstacle::Kind::none)
        plan.toggles.push_back(next);
      else if (found.kind == Obstacle::Kind::waits && !last)
        waiting.push_back(next);
      else
        plan.reasons[found.text].push_back(next.toggle->name);
    }
    open = waiting;
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
  const auto keep = [&](const Names& names) { kept.insert(names.begin(), names.end()); };
  for (const auto& [toggle, value] : plan.toggles)
    if (footprint(*toggle, top) > 0) keep({toggle->name}), keep(toggle->supersedes);
  for (auto t = plan.toggles.rbegin(); t != plan.toggles.rend(); ++t)  // needed ones come before
    if (kept.contains(t->toggle->name)) keep(t->toggle->needs);
  std::erase_if(plan.toggles, [&](const LadderToggle& t) {
    if (kept.contains(t.toggle->name)) return false;
    plan.reasons["never ran with all of them on"].push_back(t.toggle->name);
    return true;
  });
}

// ---- the arms

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
  result.placebo = placebo_of(result.arms.front());
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

  std::vector<AbArm> ends = {{"plain", options.config, settings_of({})},
                             {"all", options.config, settings_of(plan.toggles)}};
  const Pilot pilot = try_arms(ends, options);
  if (wanted.empty()) drop_idle(plan, ends[1]);
  CHECK(!plan.toggles.empty(), "ladder: no toggle ran; raise --warmup or choose with --toggles");
  LadderResult result = ladder_arms(options, plan);
  if (!wanted.empty())
    for (const auto& [toggle, value] : plan.toggles)
      result.words += cat(result.words.empty() ? " --toggles " : ",", toggle->name, "=", value);
  for (const auto& [reason, names] : plan.reasons)
    announce("ladder", cat("left out, ", reason, ": ", joined(names)));
  const size_t arms = result.arms.size() + 1;
  pilot.fit(result.options, arms);
  announce("ladder", pilot.text(result.options, arms));
  run_rounds(result);
  return publish(result, to_markdown(result), to_json(result));
}

static const AddVerb ladder_verb({"ladder",
                                  "measures toggles one after the other, from plain to all on",
                                  "trainer ladder --config configs/lenet.yaml", run_ladder});

}  // namespace bellows
