// The changes that `trainer tune` tries.
#include <set>
#include "core/device/threads.h"
#include "plan/toggle.h"
#include "trainer/ab/tune.h"

namespace bellows {

std::string Change::name() const { return cat(toggle ? toggle->name : key, "=", value); }

// Returns the setting of a toggle, and those of the toggles that it needs and that are off.
static Values settings(const Config& start, const Toggle& toggle, const std::string& value) {
  Values all = {{cat("toggles.", toggle.name), {value}}};
  for (const std::string& need : toggle.needs)
    if (const Toggle* other = find_toggle(need);
        other && value != toggle.off() && start.toggles.at(need).text == other->off())
      all.merge(settings(start, *other, suggested(*other)));
  return all;
}

static Names values_to_try(const Toggle& toggle, const std::string& now) {
  if (toggle.values.size() == 2) return now == toggle.off() ? Names{suggested(toggle)} : Names{};
  Names values = toggle.values;
  std::erase_if(values, [&](const std::string& value) { return value == now || value == "auto"; });
  return values;
}

static std::string obstacle(const TuneOptions& o, const Config& start, const Change& change) {
  std::string why;
  if (change.toggle) why = no_effect(*change.toggle, start.options.device, change.value);
  const AbArm arm = make_arm(o, change.name(), change.set);
  if (why.empty()) why = no_other_run(make_arm(o, "start", {}), arm, o.overrides);
  if (!why.empty() || o.precision) return why;
  return mantissa_bits(load_config(arm, o.overrides).plan) < mantissa_bits(start.plan)
             ? "computes in fewer bits; --precision allows it"
             : "";
}

TuneResult find_changes(const TuneOptions& options) {
  TuneResult result;
  result.options = options;
  const Config start = load_config(make_arm(options, "start", {}), options.overrides);
  const auto add = [&](const Change& change) {
    if (const std::string why = obstacle(options, start, change); why.empty())
      result.changes.push_back(change);
    else
      result.left_out[why].push_back(change.name());
  };
  for (const Toggle& toggle : toggles())
    if (*toggle.fast)
      for (const std::string& value : values_to_try(toggle, start.toggles.at(toggle.name).text))
        add({cat("toggles.", toggle.name), value, settings(start, toggle, value), &toggle});
  const int cores = allowed_cores();
  const int64_t now = start.plan.threads.threads;
  for (const int threads : std::set<int>{1, (cores + 1) / 2, cores})
    if (threads != (now ? now : cores))
      add({"threads.threads", cat(threads), {{"threads.threads", {cat(threads)}}}});
  return result;
}

}  // namespace bellows
