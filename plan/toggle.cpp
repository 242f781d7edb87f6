#include "plan/toggle.h"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include "core/base/registry.h"
#include "core/config/hint.h"
#include "core/config/removed.h"
#include "dist/rendezvous/rendezvous.h"

namespace bellows {

std::vector<Toggle>& toggles() {
  static std::vector<Toggle> all;
  return all;
}

AddToggle::AddToggle(Toggle&& toggle, const char* file) {
  note_registration(file);
  const std::string_view whole = file;
  const std::filesystem::path path = whole.substr(whole.rfind("toggles/"));
  toggle.file = path;
  toggle.name = path.stem();
  toggle.key_point = path.parent_path().filename();
  std::ranges::replace(toggle.key_point, '_', ' ');
  toggles().push_back(std::move(toggle));
}

Same promise(const Toggle& toggle, const Counters& off, const Counters& on) {
  if (trace::value_of(off, toggle.statistical_where) > 0) return Same::statistical;
  return trace::value_of(on, toggle.close_where) > 0 ? Same::close : toggle.same;
}

const Toggle* find_toggle(const std::string& name) {
  for (const Toggle& toggle : toggles())
    if (toggle.name == name || std::ranges::count(toggle.aliases, name)) return &toggle;
  return nullptr;
}

const Toggle& known_toggle(const std::string& name, const std::string& where) {
  const Toggle* const toggle = find_toggle(name);
  const std::string gone = removal(name);
  CHECK(gone.empty(), where, ": unknown toggle '", name, "': ", gone);
  Names names;
  for (const Toggle& known : toggles()) names.push_back(known.name);
  CHECK(toggle, where, ": unknown toggle ", on_one_line(name), ", the nearest one is '",
        nearest(name, names), "'");
  return *toggle;
}

// ---- machine features that a toggle may need

namespace {
struct Resource {
  const char* name;
  bool (*is_there)(DeviceChoice device);
  const char* lack;
};
}  // namespace
static constexpr Resource kResources[] = {
    {"cuda",
     [](DeviceChoice d) { return d != DeviceChoice::cpu && device_count(Device::cuda) > 0; },
     "no effect without a GPU"},
    {"cpu",
     [](DeviceChoice d) {
       return d == DeviceChoice::cpu ||
              (d.kind == DeviceChoice::automatic && device_count(Device::cuda) == 0);
     },
     "no effect on a GPU"},
    {"bf16",
     [](DeviceChoice d) {
       const bool gpu = d != DeviceChoice::cpu && device_count(Device::cuda) > 0;
       return gpu || __builtin_cpu_supports("avx512bf16");
     },
     "this CPU has no bf16 arithmetic (AVX512-BF16, AMX); fp16 is emulated anywhere"},
    {"numa", [](DeviceChoice) { return read_topology().nodes.size() > 1; },
     "no effect with a single NUMA node"},
    {"ranks", [](DeviceChoice) { return ranks_from(std::getenv, {}).world > 1; },
     "no effect with a single rank"},
};

std::string no_effect(const Toggle& toggle, DeviceChoice device, const std::string& value) {
  for (const std::string& need : toggle.needs) {
    const size_t is = need.find('=');
    if (is != std::string::npos && need.substr(0, is) != value) continue;
    const std::string name = need.substr(is + 1);  // npos + 1 is 0
    for (const Resource& resource : kResources)
      if (resource.name == name && !resource.is_there(device)) return resource.lack;
  }
  return "";
}

Plan switched(Plan plan, const Toggle& toggle, const std::string& value) {
  if (value != toggle.off()) toggle.set ? toggle.set(plan, value) : toggle.enable(plan);
  return plan;
}

static Owners find_owners() {
  Owners owners;
  const Values plain = dump(Plan{});
  for (const Toggle& toggle : toggles())
    for (const std::string& value : std::span(toggle.values).subspan(1))  // the first value is off
      for (const auto& [key, text] : dump(switched(Plan{}, toggle, value))) {
        if (plain.contains(key) && plain.at(key) == text) continue;
        const Toggle* const owner = owners.emplace(key, &toggle).first->second;
        INVARIANT(owner == &toggle, toggle.name, " and ", owner->name, " both set ", key);
      }
  return owners;
}

// Computed again only when the number of toggles changes: tests register some.
const Owners& option_owners() {
  static Owners owners;
  static size_t known = 0;
  if (known != toggles().size()) owners = find_owners();
  known = toggles().size();
  return owners;
}

// ---- toggles in a config

static std::string preset_value(const Toggle& toggle, const std::string& preset) {
  if (preset == "none") return toggle.off();
  return preset == "all" && *toggle.fast ? toggle.fast : toggle.default_value;
}

// The toggle's value as an option: one of its named values, or a number if it accepts numbers.
static Option value_option(const Toggle& toggle, std::string& value) {
  Option option = one_of(toggle.values, value, [&](size_t i) { value = toggle.values[i]; });
  if (!toggle.numbers) return option;
  int64_t any = 0;
  option.accepts += " or " + make_option(any, *toggle.numbers).accepts;
  option.read = [&, named = option.read](const std::string& text) {
    int64_t number = 0;
    if (named(text)) return true;
    if (!make_option(number, *toggle.numbers).read(text)) return false;
    value = text;
    return true;
  };
  return option;
}

static void read_preset(Config& config, const Values& source, const std::string& key) {
  const auto given = source.find(key);
  if (given == source.end()) return;
  const Value& value = given->second;
  CHECK(value.text == "default" || value.text == "all" || value.text == "none", value.origin,
        ": toggles: '", value.text, "' is not default, all or none, nor a map of toggles");
  config.preset = value.text;
  for (const Toggle& toggle : toggles())
    config.toggles[toggle.name] = {preset_value(toggle, value.text), "toggles: " + value.text};
}

static std::string remark_on(const std::string& name) {
  const std::string different = remark(name.substr(name.rfind('.') + 1));
  return different.empty() ? "" : "; " + different;
}

static void read_toggle(Config& config, const std::string& name, const Value& value) {
  CHECK(name[0] != '0', value.origin,
        ": toggles: a list; write a map, such as  toggles: {amp: on}");
  const Toggle& toggle = known_toggle(name, value.origin);
  CHECK(toggle.name == name, value.origin, ": unknown toggle '", name, "', it is called '",
        toggle.name, "' here", remark_on(name));
  std::string text = toggle.off();
  const Option option = value_option(toggle, text);
  CHECK(option.read(value.text), value.origin, ": toggles.", name, ": '", value.text, "' is not ",
        option.accepts, remedy(value.text, option.accepts));
  config.toggles[name] = {text, value.origin};
}

// Reads the `toggles:` section of one source: first the preset, then each toggle by name.
static void read_toggles(Config& config, const Values& source) {
  read_preset(config, source, "toggles");
  read_preset(config, source, "toggles.preset");
  for (const auto& [key, value] : source)
    if (key.starts_with("toggles.") && key != "toggles.preset")
      read_toggle(config, key.substr(8), value);
}

// Returns the advice to set the toggle to `value`, in the form that the source of `given` takes.
static std::string setting(const Value& given, const Toggle& toggle, const std::string& value) {
  return given.origin == kCommandLine ? cat("toggles.", toggle.name, "=", value)
                                      : cat("toggles: {", toggle.name, ": ", value, "}");
}

// Returns the advice to set the toggle so that option `key` is as `given`; lists all values of the
// toggle if none does that.
static std::string setting_for(const Value& given, const Toggle& toggle, const std::string& key) {
  int64_t number = 0;
  if (toggle.numbers && make_option(number, *toggle.numbers).read(given.text))
    return setting(given, toggle, given.text);
  std::string all;
  for (const std::string& value : toggle.values) {
    const Values with = dump(switched(Plan{}, toggle, value));
    const std::string advice = setting(given, toggle, value);
    if (with.contains(key) && with.at(key).text == given.text) return advice;
    all += (all.empty() ? "" : "  or  ") + advice;
  }
  return all;
}

// Throws if a source sets an option that a toggle owns. So the toggles alone show what was on.
static void refuse_owned(const Values& source) {
  for (const auto& [key, toggle] : option_owners()) {
    const auto given = source.find(key);
    if (given == source.end()) continue;
    const Value& value = given->second;
    fail(Exit::usage, value.origin, ": ", key, " is set by a toggle; write  ",
         setting_for(value, *toggle, key));
  }
}

// Throws if a toggle, or its name in another framework, appears outside `toggles:`:
// `num_workers: 4`, `cudnn.benchmark: true`.
static void refuse_misplaced(const Values& source, const Values& options) {
  for (const auto& [key, value] : source) {
    if (options.contains(key) || key == "toggles" || key.starts_with("toggles.")) continue;
    const Toggle* toggle = find_toggle(key);
    if (!toggle) toggle = find_toggle(key.substr(key.rfind('.') + 1));
    if (!toggle) continue;
    const bool off = remedy(value.text, "off or on") == "; write off";
    std::string text = off ? toggle->off() : suggested(*toggle);
    value_option(*toggle, text).read(value.text);
    fail(Exit::usage, value.origin, ": unknown key '", key, "', it is a toggle; write  ",
         setting(value, *toggle, text), remark_on(key));
  }
}

bool set_by_name(const Value& value) {
  return value.origin != "default" && !value.origin.starts_with("toggles: ");
}

// Returns the first toggle that `toggle` needs and that is off, or null.
static const Toggle* missing(const Config& config, const Toggle& toggle) {
  for (const std::string& need : toggle.needs)
    if (const Toggle* other = find_toggle(need);
        other && config.toggles.at(other->name).text == other->off())
      return other;
  return nullptr;
}

namespace {
// Why a toggle is turned off. `refusal`: what is wrong with a config that sets it by name; "" if
// the machine lacks something, because one config works on every machine.
struct Obstacle {
  std::string why, refusal = "";
};
}  // namespace

static Obstacle obstacle_to(const Config& config, const Toggle& toggle, const Value& value) {
  if (const std::string lack = no_effect(toggle, config.options.device, value.text); !lack.empty())
    return {lack};
  if (config.options.kernels.deterministic && value.text == toggle.nondeterministic_value)
    return {"deterministic is on", cat(": ", value.text, " and  deterministic: on  exclude each ",
                                       "other; remove one of them")};
  if (const Toggle* const other = missing(config, toggle))
    return {cat("it needs ", other->name),
            cat(" needs ", other->name, "; write  ", setting(value, *other, suggested(*other)))};
  return {};
}

// Turns off toggles that cannot work, and those that need them, until nothing changes. Throws if
// such a toggle was set by name rather than by a preset.
static void settle(Config& config) {
  for (bool again = true; again;) {
    again = false;
    for (const Toggle& toggle : toggles()) {
      Value& value = config.toggles.at(toggle.name);
      if (value.text == toggle.off()) continue;
      const auto [why, refusal] = obstacle_to(config, toggle, value);
      if (why.empty()) continue;
      CHECK(refusal.empty() || !set_by_name(value), value.origin, ": ", toggle.name, refusal);
      if (refusal.empty()) config.unavailable[toggle.name] = value;
      if (set_by_name(value)) config.notes.push_back(cat(toggle.name, ": ", why));
      value = {toggle.off(), "off, " + why};
      again = true;
    }
  }
}

Config::Config() {
  for (const Toggle& toggle : bellows::toggles())
    toggles[toggle.name] = {preset_value(toggle, preset), "default"};
}

static Values without_toggles(const Values& source) {
  Values rest;
  for (const auto& [key, value] : source)
    if (key != "toggles" && !key.starts_with("toggles.")) rest.emplace(key, value);
  return rest;
}

Config make_config(const std::vector<Values>& sources) {
  Config config;
  Keys owned;
  for (const auto& [key, toggle] : option_owners()) owned.insert(key);
  for (const Values& source : sources) {
    refuse_owned(source);
    refuse_misplaced(source, dump(config.options));
    load_onto(config.options, config.origins, without_toggles(source), owned);
    read_toggles(config, source);
  }
  settle(config);
  config.plan = config.options;
  for (const Toggle& toggle : toggles())
    config.plan = switched(config.plan, toggle, config.toggles.at(toggle.name).text);
  return config;
}

// A toggle that was turned off here, because ranks or a GPU are missing, keeps the value that the
// user set, or none: another run may have them.
static std::string print_toggle(const Config& config, const std::string& name, const Value& value) {
  const auto asked = config.unavailable.find(name);
  const bool named = asked != config.unavailable.end() && set_by_name(asked->second);
  const bool turned_off = value.origin.starts_with("off, ");
  const std::string& text = named ? asked->second.text : value.text;
  const char* const begin = turned_off && !named ? "  # " : "  ";
  return fmt::format("{:<38}  # {}\n", cat(begin, name, ": ", text), value.origin);
}

std::string print_config(const Config& config) {
  Listing options;
  Plan plan = config.options;
  visit(options, plan);
  std::erase_if(options.lines, [](const Listing::Line& line) {  // lines of options that toggles set
    return option_owners().contains(line.key) && !line.empty_list();
  });
  std::string text = to_yaml(options, config.origins) + "toggles:\n";
  text += fmt::format("{:<38}  # for those without a value\n", "  preset: " + config.preset);
  for (const auto& [name, value] : config.toggles) text += print_toggle(config, name, value);
  const Values effective = dump(config.plan);
  for (const auto& [key, toggle] : option_owners())
    if (effective.contains(key))
      text += fmt::format("# {} = {}  (toggle {})\n", key, effective.at(key).text, toggle->name);
  return text;
}

std::string suggested(const Toggle& toggle) {
  return *toggle.fast ? toggle.fast : toggle.values.at(1);
}

}  // namespace bellows
