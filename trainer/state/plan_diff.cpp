#include "trainer/state/plan_diff.h"
#include <algorithm>
#include <set>
#include "core/config/values.h"
#include "plan/toggle.h"

namespace bellows {

// Returns why neither a resumed run nor a branch can change an option; "" if a branch can.
static std::string why_fixed(const std::string& key) {
  if (key.starts_with("train.weights"))
    return "the weights come from the checkpoint; take it back, or start a new run";
  const bool names = key.ends_with(".name") || key.ends_with(".parameters") ||
                     key == "optimizer.groups" || key == "model.layers";
  const bool rule = names && key.starts_with("optimizer.");
  const bool model = names && key.starts_with("model.");
  // Without the biases the model has other weights, though the losses are close.
  if (!model && !rule && key != "model.drop_conv_bias") return "";
  return cat("the checkpoint holds the state of the other ", rule ? "optimizer" : "model",
             "; take it back, or start a new run from the weights alone with  train.weights=FILE");
}

// Returns true for options that a resumed run may change: how, how long and where it trains.
// Toggles that keep the losses are included, because another device may switch them.
static bool may_change(const std::string& key) {
  const auto owner = option_owners().find(key);
  if (owner != option_owners().end() && owner->second->same != Same::statistical &&
      !*owner->second->statistical_where)
    return true;
  for (const char* open : {"name", "device", "data.root", "data.folder", "data.on_damaged",
                           "data.sim_latency_us", "data.timeout_s"})
    if (key == open) return true;
  for (const char* open : {"schedule.", "eval.", "log.", "ckpt.", "target.", "kernels.",
                           "allocator.", "threads.", "debug.", "profile.", "train."})
    if (key.starts_with(open)) return true;
  return false;
}

std::vector<std::string> compare_plans(const Plan& saved, const Plan& now, Resume resume) {
  const Values before = dump(saved), after = dump(now);
  std::vector<std::string> changes;
  const auto text = [](const Values& values, const std::string& key) {
    const auto at = values.find(key);
    return at == values.end() ? std::string("(none)") : at->second.text;
  };
  std::set<std::string> keys;
  for (const Values* values : {&before, &after})
    for (const auto& [key, value] : *values) keys.insert(key);
  // Names of entries come first: changing one also changes which options exist.
  std::vector<std::string> order(keys.begin(), keys.end());
  std::stable_partition(order.begin(), order.end(),
                        [](const auto& key) { return key.ends_with(".name"); });
  for (const std::string& key : order) {
    if (text(before, key) == text(after, key)) continue;
    const std::string change = cat(key, ": ", text(before, key), " -> ", text(after, key));
    const std::string fixed = why_fixed(key);
    CHECK(fixed.empty(), "a resumed run cannot change ", change, ": ", fixed);
    CHECK(resume == Resume::branch || may_change(key), "a resumed run cannot change ", change,
          "; take it back, or branch off into another folder: --resume RUN/checkpoints/FILE");
    changes.push_back(change);
  }
  return changes;
}

}  // namespace bellows
