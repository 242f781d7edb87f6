// The verb `sweep`.
#include "trainer/ab/sweep.h"
#include <fmt/format.h>
#include <algorithm>
#include "core/base/words.h"
#include "dist/rendezvous/rendezvous.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/rounds.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

SweepKey parse_sweep(const std::string& text) {
  const size_t equals = text.find('=');
  CHECK(equals != text.npos && equals > 0, "sweep: --key: '", text,
        "' has no values; write  --key data.batch_size=32,64");
  SweepKey swept = {text.substr(0, equals), split(text.substr(equals + 1))};
  if (find_toggle(swept.key)) swept.key = "toggles." + swept.key;
  CHECK(swept.values.size() > 1, "sweep: --key ", text, ": give two values or more");
  return swept;
}

static Names combination(const std::vector<SweepKey>& keys, size_t index) {
  Names values;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    values.insert(values.begin(), key->values[index % key->values.size()]);
    index /= key->values.size();
  }
  return values;
}

// Returns the list under a key as YAML in one line: [{"name":"resize","size":"8"}].
static std::string to_yaml(const Values& values, const std::string& list) {
  Json items;
  for (const auto& [key, value] : values)
    if (key.starts_with(list + ".")) {
      std::string path = key.substr(list.size());  // ".0.size"
      std::ranges::replace(path, '.', '/');
      items[path] = value.text;
    }
  return items.unflatten().dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns the assignment of a key. Items of a list are not set one by one, so an option of an item
// ("data.transforms.0.size") is set by the whole list.
static std::string assignment(Values options, const std::string& key, const std::string& value) {
  const auto item = std::ranges::adjacent_find(
      key, [](char dot, char digit) { return dot == '.' && digit >= '0' && digit <= '9'; });
  if (item == key.end()) return cat(key, "=", value);
  CHECK(options.contains(key), key, " is not an option of this configuration");
  options[key].text = value;
  const std::string list(key.begin(), item);
  return cat(list, "=", to_yaml(options, list));
}

static AbArm make_arm(const SweepResult& sweep, const Values& options, const Names& values) {
  AbArm arm = {.config = sweep.options.config};
  for (size_t i = 0; i < values.size(); ++i) {
    const SweepKey& key = sweep.keys[i];
    arm.name += cat(i ? " " : "", key.name(), "=", values[i]);
    try {
      arm.set.push_back(assignment(options, key.key, values[i]));
    } catch (const Error& error) {
      fail(error.exit, "sweep: --key: ", error.what());
    }
  }
  return arm;
}

SweepResult sweep_arms(const ArmOptions& options, const std::vector<SweepKey>& keys) {
  SweepResult result;
  result.options = options;
  result.keys = keys;
  size_t count = 1;
  for (const auto& [key, values] : keys) {
    count *= values.size();
    result.words += " --key " + quoted(fmt::format("{}={}", key, fmt::join(values, ",")));
  }
  const Config base = load_config({.config = options.config}, options.overrides);
  const Values defaults = dump(base.options);
  std::vector<Values> plans;
  for (size_t i = 0; i < count; ++i) {
    const Names values = combination(keys, i);
    const AbArm arm = make_arm(result, defaults, values);
    try {
      const Config config = load_config(arm, options.overrides);
      CHECK(config.notes.empty(), config.notes.front());
      const auto same = std::ranges::find(plans, dump(config.plan));
      CHECK(same == plans.end(), "the same run as ",
            result.arms[size_t(same - plans.begin())].name);
      plans.push_back(dump(config.plan));
      const LoaderOptions& loader = config.plan.data.loader;
      result.facts.push_back(
          {values, loader.sampler.batch_size, loader.workers.num_workers, 0, std::nullopt});
    } catch (const Error& error) {
      fail(error.exit, "sweep: ", arm.name, ": ", error.what());
    }
    result.arms.push_back(arm);
  }
  result.placebo = make_placebo(result.arms.front());
  return result;
}

// Leaves out the last arms if the budget has no time for a round of all, but keeps at least two.
static void drop_unaffordable(SweepResult& result, const Pilot& pilot) {
  const size_t fit = pilot.fit(result.options, result.arms.size() + 1);
  const size_t kept = std::max<size_t>(fit, 3) - 1;
  pilot.fit_all(result.options, kept + 1);
  for (size_t i = kept; i < result.arms.size(); ++i)
    result.unmeasured.push_back(result.arms[i].name);
  result.arms.resize(std::min(kept, result.arms.size()));
  result.facts.resize(result.arms.size());
  if (!result.unmeasured.empty())
    announce("sweep", cat("the budget has no time for ", joined(result.unmeasured)));
}

static int run_sweep(CommandLine& line, const Arguments& args) {
  ArmOptions options = {.verb = "sweep", .processes = 5, .blocks = 4};
  std::string budget;
  Names keys;
  declare_config(line, options);
  line.add_option("--key", keys,
                  "a key and its values, such as data.batch_size=32,64; a second --key for all "
                  "combinations")
      .each_takes_one()
      .required();
  declare_rounds(line, options, budget);
  line.add_note(
      "Workers come with the law max(C, L / W), batch sizes with FLOP per byte and losses, "
      "models with FLOP per byte, image sizes, as in --key data.transforms.0.size=24,32, with "
      "pixels per second.");
  if (!line.read(args)) return 0;
  prepare(options, budget);
  CHECK(keys.size() <= 2, "sweep: ", keys.size(), " keys; the most are two");
  std::vector<SweepKey> swept;
  for (const std::string& key : keys) swept.push_back(parse_sweep(key));
  SweepResult result = sweep_arms(options, swept);
  check_alone("sweep", load_config(result.placebo, options.overrides).plan.dist);

  const Signals signals;
  std::vector<AbArm> ends = {result.arms.front(), result.arms.back()};
  const Pilot pilot = try_arms(ends, options, signals);
  drop_unaffordable(result, pilot);
  announce("sweep", pilot.text(result.options, result.arms.size() + 1));
  run_rounds(result, signals);
  record_work(result);
  return publish(result, to_markdown(result), to_json(result));
}

static const AddVerb sweep_verb(
    {"sweep", "measures a run for each value of one key, or of two",
     "trainer sweep --config configs/lenet.yaml --key num_workers=0,1,2", run_sweep});

}  // namespace bellows
