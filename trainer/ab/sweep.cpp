// The verb `sweep`.
#include "trainer/ab/sweep.h"
#include <algorithm>
#include "core/base/output.h"
#include "core/config/config.h"
#include "dist/rendezvous/rendezvous.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/rounds.h"
#include "trainer/verbs/step_work.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// ---- the arms

SweepKey parse_sweep(const std::string& text) {
  const size_t equals = text.find('=');
  CHECK(equals != text.npos && equals > 0, "sweep: --key: '", text,
        "' has no values; write  --key data.batch_size=32,64");
  SweepKey swept = {text.substr(0, equals), split(text.substr(equals + 1))};
  if (find_toggle(swept.key)) swept.key = "toggles." + swept.key;
  CHECK(swept.values.size() > 1, "sweep: --key ", text, ": give two values or more");
  return swept;
}

static std::string short_name(const std::string& key) { return key.substr(key.rfind('.') + 1); }

static AbArm arm_of(const ArmOptions& options, const std::vector<SweepKey>& keys, size_t index) {
  AbArm arm{.name = "", .config = options.config};
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    const std::string& value = key->values[index % key->values.size()];
    index /= key->values.size();
    arm.set.insert(arm.set.begin(), cat(key->key, "=", value));
    arm.name = cat(short_name(key->key), "=", value, arm.name.empty() ? "" : " ", arm.name);
  }
  return arm;
}

SweepResult sweep_arms(const ArmOptions& options, const std::vector<SweepKey>& keys) {
  SweepResult result;
  result.options = options;
  result.keys = keys;
  size_t count = 1;
  for (const SweepKey& key : keys) count *= key.values.size();
  std::vector<Values> plans;
  for (size_t i = 0; i < count; ++i) {
    AbArm arm = arm_of(options, keys, i);
    try {
      const Config config = config_of(arm, options.overrides);
      CHECK(config.notes.empty(), config.notes.front());
      const auto same = std::ranges::find(plans, dump(config.plan));
      CHECK(same == plans.end(), "the same run as ",
            result.arms[static_cast<size_t>(same - plans.begin())].name);
      plans.push_back(dump(config.plan));
      const LoaderOptions& loader = config.plan.data.loader;
      result.facts.push_back(
          {.batch = loader.sampler.batch_size, .workers = loader.workers.num_workers});
    } catch (const Error& error) {
      fail(error.exit, "sweep: ", arm.name, ": ", error.what());
    }
    result.arms.push_back(std::move(arm));
  }
  result.placebo = result.arms.front();
  result.placebo.name += " again";
  result.placebo.placebo = true;
  return result;
}

// Records the work of each arm's step; once for arms whose batches are alike.
static void record_work(SweepResult& result) {
  if (!vary(result, &SweepFacts::batch) && !sizes_vary(result)) return;
  for (size_t i = 0; i < result.arms.size(); ++i) try {
      result.facts[i].work =
          step_work(config_of(result.arms[i], result.options.overrides).plan).total();
    } catch (const Error& error) {
      warn(cat("sweep: ", result.arms[i].name, ": no FLOP per byte: ", error.what()));
    }
}

// ---- the verb

static int run(const Arguments& args) {
  CommandLine line = verb_line("sweep");
  ArmOptions options;
  options.verb = "sweep";
  options.processes = 5;
  options.blocks = 4;
  std::string budget;
  Names keys;
  declare_config(line, options);
  line.add_option("--key", keys,
                  "a key and its values, such as data.batch_size=32,64; a second --key for all "
                  "combinations")
      .each_takes_one()
      .required();
  declare_rounds(line, options, budget);
  if (!line.read(args)) return 0;
  options.budget_s = budget_of("sweep", budget);
  check_report(options);
  CHECK(keys.size() <= 2, "sweep: ", keys.size(), " keys; the most are two");
  std::vector<SweepKey> swept;
  for (const std::string& key : keys) swept.push_back(parse_sweep(key));
  SweepResult result = sweep_arms(options, swept);
  const int world = this_rank(config_of(result.placebo, options.overrides).plan.dist).world;
  CHECK(world == 1, "sweep: measures one rank, and the launcher started ", world,
        "; run it without a launcher");

  std::vector<AbArm*> arms = {&result.placebo};
  for (AbArm& arm : result.arms) arms.push_back(&arm);
  AbArm first = result.arms.front(), last = result.arms.back();
  const Pilot pilot = try_arms({&first, &last}, options);
  result.options = pilot.fitted(options, arms.size());
  say(cat("sweep: ", pilot.text(result.options, arms.size())));
  result.machine = machine_before();
  run_rounds(arms, result.options, result);
  note_load_after(result.machine);
  record_work(result);
  const std::string report = to_markdown(result);
  say("");
  say_part(report);
  write_report(result.options, report, to_json(result));
  return result.signal ? 128 + result.signal : 0;
}

static const AddVerb verb({"sweep", "measures a run for each value of one key, or of two",
                           "trainer sweep --config configs/lenet.yaml --key num_workers=0,1,2",
                           run});

}  // namespace bellows
