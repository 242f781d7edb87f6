// `trainer ladder`: a waterfall from the plain plan (toggles=none) to all toggles of `toggles: all`
// that run here. Each step adds one toggle to the step before. The ablation then leaves each toggle
// out of the full set. Both are needed: a step is credited with gains that earlier ones made
// possible, and a toggle whose effect another one covers seems worthless when it is left out.
#pragma once
#include <map>
#include "trainer/ab/arms.h"

namespace bellows {

struct LadderToggle {
  const Toggle* toggle;
  std::string value;
};
using LadderToggles = std::vector<LadderToggle>;

struct LadderPlan {
  LadderToggles toggles;                 // in the order in which they are added
  std::map<std::string, Names> reasons;  // names of the toggles left out, by reason
};
// Returns the toggles that a plan of this configuration accepts on this machine and that change it,
// in the order of their files, each after those that it needs. With `wanted`, "name" or
// "name=value" each, only these, in that order. Throws Error (exit 2) if a wanted one cannot be a
// step.
LadderPlan plan_ladder(const ArmOptions& options, const Names& wanted);

// Returns the settings of an arm with these toggles and no others.
Names settings_of(const LadderToggles& toggles);
// Returns the toggles without the given one and those that need it.
LadderToggles left_out(const LadderToggles& toggles, size_t index);
// Moves the toggles that never ran in `top`, an arm with all of them, to plan.reasons. Toggles that
// another one supersedes stay: they may run before that one is added.
void drop_idle(LadderPlan& plan, const AbArm& top);

// Arms: the plain one, one per step with the toggles so far, and one without each toggle except the
// last, whose arm would equal the last step but one.
struct LadderResult : Comparison {
  LadderPlan plan;
  size_t steps() const { return plan.toggles.size(); }
  const AbArm& before(size_t i) const { return arms[i]; }  // step i
  const AbArm& step(size_t i) const { return arms[1 + i]; }
  const AbArm& all() const { return step(steps() - 1); }
  const AbArm& without(size_t i) const {
    return i + 1 < steps() ? arms[1 + steps() + i] : before(i);
  }
};
// Names the arms and sets their configurations.
LadderResult ladder_arms(const ArmOptions& options, const LadderPlan& plan);

std::string to_markdown(const LadderResult& result);
Json to_json(const LadderResult& result);

}  // namespace bellows
