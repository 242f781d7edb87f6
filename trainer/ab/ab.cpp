// The verb `ab`.
#include "trainer/ab/ab.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "dist/rendezvous/rendezvous.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/rounds.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

namespace {
struct AbLine {
  AbOptions options;
  std::string values, budget, target, measure = "step", clock = "wall";
  Names set;                  // key=value settings of this arm
  ArmProcessOptions process;  // set only when this process is one of the arms
};
}  // namespace

static void declare(CommandLine& line, AbLine& given) {
  AbOptions& o = given.options;
  ArmProcessOptions& p = given.process;
  declare_config(line, o);
  const auto toggle = line.add_option("--toggle", o.toggle, "the toggle in which the arms differ");
  const auto value = line.add_option("--value", given.values,
                                     "values of the arms that have it on, such as 1,2,4 (default: "
                                     "the one of `toggles: all`)");
  line.add_option("--against", o.against,
                  "YAML file of the other arm, instead of --toggle; its differences are listed")
      .excludes(toggle)
      .excludes(value);
  line.add_flag("--allow-many", o.allow_many, "--against may differ in more than one option");
  const auto measure =
      line.add_option("--measure", given.measure,
                      "step: training steps only; epoch: whole epochs, with evaluation and "
                      "checkpoint")
          .one_of({"step", "epoch"});
  line.add_option("--time-to", given.target,
                  "whole runs until a metric reaches a value, such as accuracy=0.98; each round "
                  "has another seed")
      .excludes(measure);
  line.add_option("--clock", given.clock,
                  "wall: elapsed time; cpu: CPU time of the process, for one thread on a busy "
                  "machine")
      .one_of({"wall", "cpu"});
  declare_rounds(line, o, given.budget);
  line.add_option("--set", given.set, "").each_takes_one().hidden();
  line.add_option("--arm-folder", p.folder, "").hidden();
  line.add_option("--parent", p.parent, "").hidden();
  line.add_option("--round", p.round, "").hidden();
  line.add_option("--mantissa", p.mantissa, "").hidden();
  line.add_flag("--placebo", p.placebo, "").hidden();
}

static void time_to(AbOptions& options, const std::string& target) {
  const size_t equals = target.find('=');
  char rest = 0;
  const bool fits = equals != std::string::npos && std::sscanf(target.c_str() + equals + 1, "%lf%c",
                                                               &options.target.value, &rest) == 1;
  CHECK(fits && std::isfinite(options.target.value), "ab: --time-to: '", target,
        "' is not a target; write a metric and its value, such as accuracy=0.98");
  options.target.metric = target.substr(0, equals);
  options.measure = AbMeasure::target;
  options.blocks = 1;
}

static void refuse_counts(const CommandLine& line, AbMeasure measure) {
  if (measure == AbMeasure::step) return;
  const bool epochs = measure == AbMeasure::epoch;
  for (const std::string option : {"--steps", "--warmup", "--blocks"})
    CHECK(!line.given(option) || (epochs && option == "--blocks"), "ab: ", option,
          " has no effect with ",
          epochs ? "--measure epoch, whose blocks are epochs" : "--time-to, whose blocks are runs");
}

// Returns the settings of an arm: the toggle, and off for all toggles that need it, directly or
// through another one.
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

static AbArm arm_with(const AbOptions& options, const Toggle& toggle, const std::string& value) {
  return make_arm(options, cat(toggle.name, "=", value), settings(toggle, value));
}

static Config config_of(const AbArm& arm, const AbOptions& options) {
  try {
    return load_config(arm, options.overrides);
  } catch (const Error& error) {
    fail(error.exit, "ab: no arm with ", arm.name, ": ", error.what());
  }
}

static Names forced_off(const AbOptions& options, const Toggle& toggle) {
  Values off = settings(toggle, options.values.front()), own;
  own.insert(off.extract(cat("toggles.", toggle.name)));
  const Config free = config_of(make_arm(options, toggle.name, own), options);
  Names held;
  for (const auto& [key, value] : off) {
    const std::string name = key.substr(key.find('.') + 1);
    if (free.toggles.at(name).text != value.text) held.push_back(cat(name, "=", value.text));
  }
  return held;
}

// Returns the differences between two configurations, one line each: toggles, but for `except`, and
// options that no toggle sets. The runs' names do not count.
static Names differences(const Config& a, const Config& b, const std::string& except = "") {
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

// Throws Error (exit 2) if two arms are equal or the toggle has no effect on this machine.
static void add_arms(AbResult& result, const AbOptions& options, const Toggle& toggle) {
  make_config(read_sources(options.config, options.overrides));  // other errors than the toggle's
  result.words =
      fmt::format(" --toggle {} --value {}", toggle.name, fmt::join(options.values, ","));
  result.arms = {arm_with(options, toggle, toggle.off())};
  const Config off = config_of(result.off(), options);
  for (const std::string& value : options.values) {
    CHECK(value != toggle.off(), "ab: ", toggle.name, "=", value,
          " is off, so two arms would be equal; choose another with --value");
    CHECK(std::ranges::count(options.values, value) == 1, "ab: --value: '", value,
          "' is named twice; name each value once");
    const AbArm& arm = result.arms.emplace_back(arm_with(options, toggle, value));
    const Config on = config_of(arm, options);
    const std::string why = no_effect(toggle, on.options.device, value);
    CHECK(why.empty(), "ab: ", arm.name, ": ", why);
    const Names extra = differences(off, on, toggle.name);
    INVARIANT(extra.empty(), "ab: the arms differ in more than ", toggle.name, ": ", extra.front());
  }
  result.forced_off = forced_off(options, toggle);
}

static void add_files(AbResult& result, const AbOptions& options) {
  result.words =
      cat(" --against ", quoted(options.against), options.allow_many ? " --allow-many" : "");
  result.arms = {{options.config, options.config}, {options.against, options.against}};
  const Names found = differences(load_config(result.arms[0], options.overrides),
                                  load_config(result.arms[1], options.overrides));
  CHECK(!found.empty(), "ab: --against: ", options.config, " and ", options.against,
        " describe the same run; change an option in one of them");
  CHECK(found.size() == 1 || options.allow_many, "ab: --against: ", found.size(),
        " differences, so a result would not tell which one matters: ", joined(found),
        "; leave one, or add --allow-many");
  result.differences = found;
}

AbResult compare_arms(const AbOptions& options, const Toggle* toggle) {
  const Signals signals;
  AbResult result;
  result.options = options;
  result.toggle = toggle;
  toggle ? add_arms(result, options, *toggle) : add_files(result, options);
  result.placebo = make_placebo(result.off());
  const Ranks ranks = this_rank(load_config(result.off(), options.overrides).plan.dist);
  result.options.ranks = ranks.world;
  if (ranks.rank == 0) {
    for (const std::string& difference : result.differences)
      say(cat(options.verb, ": ", difference));
    if (!result.forced_off.empty()) announce(options.verb, forced_off_text(result));
  }
  if (options.budget_s > 0 && options.measure == AbMeasure::epoch)
    result.options.blocks = std::min<int64_t>(options.blocks, 2);  // after one epoch of warm-up
  if (options.budget_s > 0 && options.measure == AbMeasure::step && ranks.world == 1) {
    std::vector<AbArm> pilot = {result.off(), result.arms.back()};
    try_arms(pilot, options, signals).fit_all(result.options, result.arms.size() + 1);
  }
  run_rounds(result, signals, [&](int64_t planned) {
    return is_clear(result) ? ""
                            : fmt::format("can detect differences of {:.1f} % or more",
                                          100 * resolution(result, planned));
  });
  return result;
}

static int run_ab(CommandLine& line, const Arguments& args) {
  AbLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  AbOptions& options = given.options;
  options.measure = given.measure == "step" ? AbMeasure::step : AbMeasure::epoch;
  if (!given.target.empty()) time_to(options, given.target);
  options.clock = given.clock == "wall" ? Clock::wall : Clock::cpu;
  options.values = split(given.values);
  CHECK(options.toggle.empty() != options.against.empty() || !given.process.folder.empty(),
        "ab: name the difference between the arms with either --toggle or --against");
  const Toggle* const toggle =
      options.toggle.empty() ? nullptr : &known_toggle(options.toggle, "ab");
  if (!given.process.folder.empty())
    return run_arm(
        load_config({.config = options.config, .set = given.set}, options.overrides).plan, options,
        given.process);
  refuse_counts(line, options.measure);
  if (toggle) {
    options.toggle = toggle->name;  // replaces an alias
    if (options.values.empty()) options.values = {suggested(*toggle)};
  }
  prepare(options, given.budget);
  const AbResult result = compare_arms(options, toggle);
  const Ranks ranks = this_rank(load_config(result.off(), options.overrides).plan.dist);
  if (ranks.rank > 0) return 0;
  const int code = publish(result, to_markdown(result), to_json(result));
  for (const AbArm& arm : result.on())
    if (const Finding losses = compare_losses(result, arm); !losses.good)
      fail(Exit::numeric, "ab: ", arm.name,
           ": the losses differ by more than they may: ", losses.text);
  return code;
}

static const AddVerb ab_verb(
    {"ab", "compares runs that differ in one toggle, with a confidence interval",
     "trainer ab --config configs/lenet.yaml --toggle num_workers --value 2", run_ab});

}  // namespace bellows
