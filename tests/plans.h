// Plans with toggles, and with the options under which a toggle's mechanism runs.
#pragma once
#include "core/config/yaml.h"
#include "plan/toggle.h"

namespace bellows {

// Returns the plan with the options of the toggle's proof.
inline Plan with_proof(const Plan& plan, const Toggle& toggle) {
  if (toggle.proof.empty()) return plan;
  return load(plan, parse_yaml(toggle.proof, cat("proof of ", toggle.name)));
}

// Returns the plan with the named toggles switched. The names must exist.
inline Plan with_toggles(Plan plan, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) plan = switched(plan, *find_toggle(name), value);
  return plan;
}

}  // namespace bellows
