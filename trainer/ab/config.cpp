// Configurations of the arms of `trainer ab`.
#include "core/config/config.h"
#include <algorithm>
#include <set>
#include "trainer/ab/ab.h"

namespace bellows {

// Returns the settings that switch off all toggles that need `toggle`, directly or through another
// one.
static Values dependents_off(const Toggle& toggle) {
  std::set<std::string> known = {toggle.name};
  Values off;
  for (size_t before = 0; before < known.size();) {
    before = known.size();
    for (const Toggle& other : toggles())
      for (const std::string& need : other.needs)
        if (known.contains(need) && known.insert(other.name).second)
          off[cat("toggles.", other.name)] = {other.off(), "ab"};
  }
  return off;
}

static Config config_with(std::vector<Values> sources, const Toggle& toggle,
                          const std::string& value, Values more) try {
  more[cat("toggles.", toggle.name)] = {value, "ab"};
  sources.push_back(std::move(more));
  return make_config(sources);
} catch (const Error& error) {
  fail(error.exit, "ab: no arm with ", toggle.name, "=", value, ": ", error.what());
}

Config arm_config(const AbOptions& options, const Toggle& toggle, const std::string& value) {
  const std::vector<Values> sources = sources_of(options.config, options.overrides);
  make_config(sources);  // reports errors that do not come from the toggle
  return config_with(sources, toggle, value, dependents_off(toggle));
}

Names arm_settings(const Toggle& toggle, const std::string& value) {
  Names set = {cat("toggles.", toggle.name, "=", value)};
  for (const auto& [key, off] : dependents_off(toggle)) set.push_back(cat(key, "=", off.text));
  return set;
}

Names forced_off(const AbOptions& options, const Toggle& toggle) {
  const std::vector<Values> sources = sources_of(options.config, options.overrides);
  const Config free = config_with(sources, toggle, options.values.front(), {});
  Names held;
  for (const auto& [key, off] : dependents_off(toggle)) {
    const std::string name = key.substr(key.find('.') + 1);
    if (free.toggles.at(name).text != off.text) held.push_back(cat(name, "=", off.text));
  }
  return held;
}

static Names differences_but(const std::string& toggle, const Config& off, const Config& on) {
  Names extra;
  for (const auto& [name, value] : off.toggles) {
    const Value& other = on.toggles.at(name);
    if (name == toggle || value.text == other.text) continue;
    extra.push_back(cat("toggles.", name, " is ", value.text, " (", value.origin, ") and ",
                        other.text, " (", other.origin, ")"));
  }
  for (const auto& [key, a, b] : differences(dump(off.options), dump(on.options), "absent"))
    extra.push_back(cat(key, " is ", a, " and ", b));
  return extra;
}

Names differences(const Config& a, const Config& b) {
  Config renamed = b;
  renamed.options.name = a.options.name;
  return differences_but("", a, renamed);
}

Names extra_differences(const Config& off, const Config& on, const Toggle& toggle) {
  return differences_but(toggle.name, off, on);
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
    const Names extra = extra_differences(off, on, toggle);
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
