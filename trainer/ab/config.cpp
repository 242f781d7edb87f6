// Configurations of the arms of `trainer ab`.
#include "core/config/config.h"
#include <algorithm>
#include "trainer/ab/ab.h"

namespace bellows {

// What an arm sets: the toggle, and off for all toggles that need it, directly or through another
// one.
static Values settings(const Toggle& toggle, const std::string& value) {
  Values set = {{cat("toggles.", toggle.name), {value, "ab"}}};
  for (size_t before = 0; before < set.size();) {
    before = set.size();
    for (const Toggle& other : toggles())
      for (const std::string& need : other.needs)
        if (set.contains(cat("toggles.", need)))
          set.try_emplace(cat("toggles.", other.name), Value{other.off(), "ab"});
  }
  return set;
}

static Config config_with(std::vector<Values> sources, const Toggle& toggle,
                          const Values& set) try {
  sources.push_back(set);
  return make_config(sources);
} catch (const Error& error) {
  fail(error.exit, "ab: no arm with ", toggle.name, "=", set.at(cat("toggles.", toggle.name)).text,
       ": ", error.what());
}

Config arm_config(const AbOptions& options, const Toggle& toggle, const std::string& value) {
  const std::vector<Values> sources = sources_of(options.config, options.overrides);
  make_config(sources);  // reports errors that do not come from the toggle
  return config_with(sources, toggle, settings(toggle, value));
}

Names arm_settings(const Toggle& toggle, const std::string& value) {
  Names set;
  for (const auto& [key, setting] : settings(toggle, value))
    set.push_back(cat(key, "=", setting.text));
  return set;
}

Names forced_off(const AbOptions& options, const Toggle& toggle) {
  Values off = settings(toggle, options.values.front());
  Values own;
  own.insert(off.extract(cat("toggles.", toggle.name)));
  const Config free = config_with(sources_of(options.config, options.overrides), toggle, own);
  Names held;
  for (const auto& [key, value] : off) {
    const std::string name = key.substr(key.find('.') + 1);
    if (free.toggles.at(name).text != value.text) held.push_back(cat(name, "=", value.text));
  }
  return held;
}

Names differences(const Config& a, const Config& b, const std::string& except) {
  Names found;
  for (const auto& [name, value] : a.toggles) {
    const Value& other = b.toggles.at(name);
    if (name == except || value.text == other.text) continue;
    found.push_back(cat("toggles.", name, " is ", value.text, " (", value.origin, ") and ",
                        other.text, " (", other.origin, ")"));
  }
  for (const auto& [key, in_a, in_b] : differences(dump(a.options), dump(b.options), "absent"))
    if (key != "name") found.push_back(cat(key, " is ", in_a, " and ", in_b));
  return found;
}

void check_arms(const AbOptions& options, const Toggle& toggle) {
  const Config off = arm_config(options, toggle, toggle.off());
  for (const std::string& value : options.values) {
    CHECK(value != toggle.off(), "ab: ", toggle.name, "=", value,
          " is off, so two arms would be equal; choose another with --value");
    CHECK(std::ranges::count(options.values, value) == 1, "ab: --value: '", value,
          "' is named twice; name each value once");
    const Config on = arm_config(options, toggle, value);
    const std::string why = no_effect(toggle, on.options.device, value);
    CHECK(why.empty(), "ab: ", toggle.name, "=", value, ": ", why);
    const Names extra = differences(off, on, toggle.name);
    INVARIANT(extra.empty(), "ab: the arms differ in more than ", toggle.name, ": ", extra.front());
  }
}

Names check_against(const AbOptions& options) {
  const Names found = differences(make_config(sources_of(options.config, options.overrides)),
                                  make_config(sources_of(options.against, options.overrides)));
  CHECK(!found.empty(), "ab: --against: ", options.config, " and ", options.against,
        " describe the same run; change an option in one of them");
  CHECK(found.size() == 1 || options.allow_many, "ab: --against: ", found.size(),
        " differences, so a result would not tell which one matters: ", joined(found),
        "; leave one, or add --allow-many");
  return found;
}

}  // namespace bellows
