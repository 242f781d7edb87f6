// The verb `ab`: two arms that differ in one toggle, first a placebo, then the comparison.
#include "trainer/ab.h"
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include "core/threads.h"
#include "trainer/config.h"
#include "trainer/output.h"
#include "trainer/system.h"
#include "trainer/verbs.h"

namespace bellows {

Names extra_differences(const Config& off, const Config& on, const Toggle& toggle) {
  Names extra;
  for (const auto& [name, value] : off.toggles) {
    const Value& other = on.toggles.at(name);
    if (name == toggle.name || value.text == other.text) continue;
    extra.push_back(cat("toggles.", name, " is ", value.text, " (", value.origin, ") and ",
                        other.text, " (", other.origin, ")"));
  }
  const Values on_options = dump(on.options);
  for (const auto& [key, value] : dump(off.options)) {
    const auto other = on_options.find(key);
    const std::string text = other == on_options.end() ? "absent" : other->second.text;
    if (value.text != text) extra.push_back(cat(key, " is ", value.text, " and ", text));
  }
  return extra;
}

// ---- the arms

static std::string default_value(const Toggle& toggle) {
  return *toggle.fast ? toggle.fast : toggle.values.at(1);
}

static const Toggle& toggle_of(const AbOptions& options) {
  const Toggle* const toggle = find_toggle(options.toggle);
  Names names;
  for (const Toggle& known : toggles()) names.push_back(known.name);
  CHECK(toggle, "ab: unknown toggle '", options.toggle, "', the nearest one is '",
        nearest(options.toggle, names), "'");
  return *toggle;
}

static Config arm_config(const AbOptions& options, const Toggle& toggle, const std::string& value) {
  std::vector<Values> sources = read_config(options.config);
  sources.push_back(parse_overrides(options.overrides));
  make_config(sources);  // so that what is wrong without the toggle is not blamed on it
  sources.push_back({{cat("toggles.", toggle.name), {value, "ab"}}});
  try {
    return make_config(sources);
  } catch (const Error& error) {
    fail(error.exit, "ab: no arm with ", toggle.name, "=", value, ": ", error.what());
  }
}

static void check_arms(const AbOptions& options, const Toggle& toggle) {
  CHECK(options.value != toggle.off(), "ab: ", toggle.name, "=", options.value,
        " is off, so both arms would be equal; --value takes another");
  const Config off = arm_config(options, toggle, toggle.off());
  const Config on = arm_config(options, toggle, options.value);
  std::string list;
  for (const std::string& line : extra_differences(off, on, toggle)) list += "; " + line;
  CHECK(list.empty(), "ab: the arms differ in more than ", toggle.name, list,
        "; set these to the same value for both, as in toggles.NAME=off");
}

static ArmCommand arm_command(const AbOptions& options, const std::string& value) {
  std::vector<std::string> argv = {
      "/proc/self/exe", "ab",
      "--arm",          value,
      "--config",       options.config,
      "--toggle",       options.toggle,
      "--measure",      options.measure == AbMeasure::step ? "step" : "epoch",
      "--steps",        std::to_string(options.steps),
      "--blocks",       std::to_string(options.blocks),
      "--warmup",       std::to_string(options.warmup)};
  argv.insert(argv.end(), options.overrides.begin(), options.overrides.end());
  return {options.toggle + "=" + value, argv};
}

// ---- the machine

static std::string load_average() {
  double load[3] = {};
  getloadavg(load, 3);
  return fmt::format("{:.2f} {:.2f} {:.2f}", load[0], load[1], load[2]);
}

static std::string governor() {
  std::string name;
  std::getline(std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), name);
  return name.empty() ? "unknown" : name;
}

static std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  return text;
}

// Not all of environment(): a report is for others to read, so it names no host and no folder.
static Json machine_now() {
  const Json all = environment();
  Json machine = {{"date", today()},
                  {"cpu", all["cpu"]},
                  {"cores", all["cores"]},
                  {"governor", governor()},
                  {"load average before", load_average()}};
  for (const char* key : {"kernel", "commit", "versions", "variables"}) machine[key] = all[key];
  return machine;
}

// ---- the verb

static AbResult measure(const AbOptions& options, const Toggle& toggle) {
  AbResult result = {options, &toggle, {}, {}, machine_now()};
  const ArmCommand off = arm_command(options, toggle.off()),
                   on = arm_command(options, options.value);
  complain(cat("ab: placebo, ", off.name, " against itself ..."));
  result.placebo = take_turns(off, off, options.blocks, options.timeout_s);
  complain(cat("ab: ", off.name, " against ", on.name, " ..."));
  result.measured = take_turns(off, on, options.blocks, options.timeout_s);
  result.machine["load average after"] = load_average();
  return result;
}

static void write_report(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (!out) fail(Exit::storage, path.string(), ": cannot be written");
}

static int run(const Arguments& args) {
  CommandLine line("ab");
  AbOptions options;
  std::string arm;
  line.add_option("--config", options.config, "as for train")->required();
  line.add_option("--toggle", options.toggle, "the one difference")->required();
  line.add_option("--value", options.value, "of the arm that has it on; the toggle's fast one");
  line.add_option("--measure", options.measure, "step, or epoch with evaluation and checkpoint")
      ->transform(CLI::CheckedTransformer(std::map<std::string, AbMeasure>{
          {"step", AbMeasure::step}, {"epoch", AbMeasure::epoch}}));
  line.add_option("--clock", options.clock, "wall, or cpu: of the process, for one thread")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, AbClock>{{"wall", AbClock::wall}, {"cpu", AbClock::cpu}}));
  line.add_option("--steps", options.steps, "in a block")->check(CLI::PositiveNumber);
  line.add_option("--blocks", options.blocks, "a side")->check(CLI::PositiveNumber);
  line.add_option("--warmup", options.warmup, "steps before the first block")
      ->check(CLI::PositiveNumber);
  line.add_option("--timeout", options.timeout_s, "seconds for one block")
      ->check(CLI::PositiveNumber);
  line.add_option("--report", options.report, "FILE.md; FILE.json goes beside it");
  line.add_option("--arm", arm)->group("");  // not for people: this process is that arm
  line.add_option("overrides", options.overrides, "key=value, for both arms");
  if (!line.read(args)) return 0;

  const Toggle& toggle = toggle_of(options);
  if (!arm.empty()) {
    run_ab_arm(arm_config(options, toggle, arm).plan, options);
    return 0;
  }
  if (options.value.empty()) options.value = default_value(toggle);
  check_arms(options, toggle);
  ...
}
