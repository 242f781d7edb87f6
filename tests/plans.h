// Plans with toggles, and with the options under which a toggle's mechanism runs.
#pragma once
#include "core/config/config.h"
#include "core/config/yaml.h"
#include "plan/toggle.h"

namespace bellows {

inline Names toggle_names() {
  Names names;
  for (const Toggle& toggle : toggles()) names.push_back(toggle.name);
  return names;
}

// Returns the plan with the toggles that this one needs, and with the options of its proof.
inline Plan with_proof(Plan plan, const Toggle& toggle) {
  for (const std::string& need : toggle.needs)
    if (const Toggle* const other = find_toggle(need))
      plan = switched(plan, *other, suggested(*other));
  if (toggle.proof.empty()) return plan;
  return load(plan, parse_yaml(toggle.proof, cat("proof of ", toggle.name)));
}

// Returns the plan with the named toggles switched. The names must exist.
inline Plan with_toggles(Plan plan, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) plan = switched(plan, *find_toggle(name), value);
  return plan;
}

}  // namespace bellows
