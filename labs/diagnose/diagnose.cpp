// trainer diagnose: names what limits a run, and with --apply tries the remedy.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "core/base/file.h"
#include "core/base/output.h"
#include "core/config/config.h"
#include "core/config/values.h"
#include "labs/diagnose/diagnosis.h"
#include "trainer/ab/ab.h"
#include "trainer/ab/arm_report.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

namespace {
struct DiagnoseLine {
  std::string run, config, apply, budget = "60s";
  Names words, overrides;
  double seconds = 5;
  bool json = false;
};
}  // namespace

static void declare(CommandLine& line, DiagnoseLine& given) {
  line.add_option("run", given.words,
                  "folder of a run, to judge what it recorded; with --config, key=value options");
  line.add_option("--config,-c", given.config,
                  "YAML file to train with for a moment, which shows more than a run's folder");
  line.add_option("--seconds", given.seconds,
                  "to train, after the warm-up; it ends after 2000 updates")
      .positive()
      .shows_default();
  const auto apply =
      line.add_option("--apply", given.apply,
                      "YAML file to write, with the remedies of the first finding; `ab` then "
                      "compares it with --config");
  line.add_option("--budget", given.budget, "time to diagnose, at most half of it, and to compare")
      .shows_default();
  line.add_flag("--json", given.json, "print one JSON object").excludes(apply);
}

// Compares the run with its remedy, and returns ab's exit code.
static int apply(const DiagnoseLine& given, const Json& report, AbOptions options) {
  const Json& findings = report["findings"];
  const auto curable =
      std::ranges::find_if(findings, [](const Json& each) { return !each["remedies"].empty(); });
  if (curable == findings.end()) return say("nothing to apply: no finding has a setting"), 0;
  const Json& finding = *curable;
  std::vector<ConfigLine> settings;
  for (const auto& [key, value] : parse_overrides(finding["remedies"]))
    settings.push_back({key, value.text});
  write_extension(given.apply, given.config, settings);
  say(cat("wrote ", given.apply, ": ", plain(finding["remedies"])));
  options.config = given.config;
  options.against = given.apply;
  options.allow_many = true;
  settle_planted_load(options);
  const AbResult result = compare_arms(options, nullptr);
  say(fmt::format("{}: predicted at most {:.2f} x", plain(finding["rule"]),
                  finding["most_speedup"].get<double>()));
  say(cat("measured: ", headline(result, result.on().front())));
  return result.signal ? 128 + result.signal : 0;
}

static int run_diagnose(CommandLine& line, const Arguments& args) {
  DiagnoseLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  for (const std::string& word : given.words) {
    const bool is_option = word.find('=') != std::string::npos;
    CHECK(is_option || given.run.empty(), "diagnose: ", given.run, " and ", word,
          ": it judges one run; name one folder");
    if (is_option)
      given.overrides.push_back(word);
    else
      given.run = word;
  }
  CHECK(given.run.empty() != given.config.empty() && (given.run.empty() || given.overrides.empty()),
        "diagnose: name either the folder of a run, or a config with --config");
  CHECK(given.run.empty() || !line.given("--seconds"),
        "diagnose: a run is not trained again; leave --seconds out, or name its config");
  CHECK(!given.apply.empty() || !line.given("--budget"),
        "diagnose: --budget is the time of the comparison by --apply; add --apply FILE");
  CHECK(given.apply.empty() || (!given.config.empty() && given.overrides.empty()),
        "diagnose: --apply needs --config, and no key=value: write those into the YAML file");
  CHECK(given.apply.empty() || kind_of(given.apply, Exit::usage) == Kind::nothing,
        "diagnose: --apply ", given.apply, ": exists; name a new file");
  AbOptions options;
  options.verb = "diagnose";
  limit_time(options, given.budget);
  const Json report =
      diagnose(given.config.empty()
                   ? read_evidence(given.run)
                   : measure(make_config(read_sources(given.config, given.overrides)),
                             given.seconds, given.apply.empty() ? INFINITY : options.budget_s / 2));
  if (given.json)
    say(to_line(report));
  else
    say_part(plain(report["text"]));
  return given.apply.empty() ? 0 : apply(given, report, options);
}

static const AddVerb diagnose_verb({"diagnose", "names what limits a run, and the switches to try",
                                    "trainer diagnose --config configs/lenet.yaml", run_diagnose});

}  // namespace bellows
