// The verb `tune`: its command line, and its report.
#include <fmt/format.h>
#include <algorithm>
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "dist/rendezvous/rendezvous.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/rounds.h"
#include "trainer/ab/tune.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

std::vector<ConfigLine> settings_of(const TuneResult& result) {
  std::vector<ConfigLine> all;
  Values rest;
  if (result.gains)
    for (const Change* change : result.kept) {
      all.push_back({change->key, change->value, ratio_text(change->gain)});
      for (const auto& [key, needed] : change->set)
        rest.emplace(key, Value{needed.text, cat("needed by ", change->name())});
    }
  rest.merge(parse_overrides(result.options.overrides));  // keeps what a change needs
  for (const ConfigLine& line : all) rest.erase(line.key);
  for (const auto& [key, value] : rest)
    all.push_back({key == "toggles" ? "toggles.preset" : key, yaml(value.text), value.origin});
  return all;
}

static Json to_json(const Change& change) {
  Json json = {{"name", change.name()},
               {"key", change.key},
               {"value", change.value},
               {"kept", change.fate == Change::Fate::kept},
               {"why", change.why}};
  if (change.toggle) json["same"] = name_of(change.toggle->same);
  if (change.gain.rounds > 0) json["gain"] = speedup_json(change.gain, change.placebo);
  return json;
}

static Json json_of_changes(const TuneResult& result) {
  Json changes = Json::array();
  for (const Change* change : result.kept) changes.push_back(to_json(*change));
  for (const Change& change : result.changes)
    if (!std::ranges::count(result.kept, &change)) changes.push_back(to_json(change));
  return changes;
}

Json to_json(const TuneResult& result) {
  const AbResult& c = result.confirmation;
  Json own = {{"config", result.options.config},
              {"out", result.options.out},
              {"answer", result.answer},
              {"gains", result.gains},
              {"changes", json_of_changes(result)},
              {"left_out", result.left_out},
              {"start", arm_json(c.off(), c.options)}};
  if (c.arms.back().name == "tuned") {
    own["tuned"] = arm_json(c.arms.back(), c.options);
    own["tuned"]["speedup"] = speedup_json(speedup(c, c.arms.back()), c);
  }
  return report_json("tune", c, own);
}

std::string to_markdown(const TuneResult& result) {
  constexpr size_t kWidth = 26;  // columns of the reason, after the change and its gain
  Json rows = json_of_changes(result);
  std::string notes;
  for (Json& row : rows) {
    const std::string why = row["why"];
    if (why.size() <= kWidth) continue;
    notes += list_item(cat(row["name"].get<std::string>(), ": ", why));
    row["why"] = "see below";
  }
  std::string text =
      cat("# ", printable(result.options.config), ", tuned\n\n",
          wrapped(cat("**", result.answer, "**"), ""), "\n\n",
          list_item(cat("wrote ", result.options.out)), rounds_list(result.confirmation));
  for (const auto& [reason, names] : result.left_out)
    text += list_item(cat("left out, ", reason, ": ", joined(names)));
  return cat(text, "\n## What was tried\n\nEach ratio is over what was kept before it.\n\n",
             markdown_table(rows, {{"change", "name"}, {"x as fast", "gain"}, {"", "why"}}), "\n",
             notes, notes.empty() ? "" : "\n", measurement_text(result.confirmation));
}

static void declare(CommandLine& line, TuneOptions& o, std::string& budget) {
  declare_config(line, o);
  line.add_option("--out", o.out, "config to write; it extends that of --config").required();
  line.add_option("--budget", budget, "time for all of it").shows_default();
  line.add_flag("--precision", o.precision, "also try what computes in fewer bits, such as amp");
  line.add_option("--memory", o.memory, "the most peak memory, as a multiple of the start's")
      .positive()
      .shows_default();
  declare_report(line, o);
}

static void check_out(const TuneOptions& o) {
  std::error_code none;
  check_place(o.out, "tune: --out");
  CHECK(!std::filesystem::equivalent(o.out, o.config, none), "tune: --out: ", o.out,
        " is the config itself; write to another file");
}

static std::string command_of(const TuneOptions& o) {
  std::string text = fmt::format("trainer tune --config {} --budget {:g}s --out {}",
                                 quoted(o.config), o.budget_s, quoted(o.out));
  if (o.precision) text += " --precision";
  if (o.memory != TuneOptions().memory) text += fmt::format(" --memory {:g}", o.memory);
  for (const std::string& assignment : o.overrides) text.append(" ").append(quoted(assignment));
  return text;
}

static int run_tune(CommandLine& line, const Arguments& args) {
  TuneOptions options;
  options.verb = "tune";
  std::string budget = "5m";
  declare(line, options, budget);
  if (!line.read(args)) return 0;
  prepare(options, budget);
  check_out(options);
  TuneResult result = find_changes(options);
  CHECK(!result.changes.empty(), "tune: no change can have an effect here");
  check_alone("tune", load_config({.config = options.config}, options.overrides).plan.dist);
  const Signals signals;
  tune(result, signals);
  result.confirmation.command = command_of(options);
  result.confirmation.signal = result.signal;
  write_extension(options.out, options.config, settings_of(result),
                  cat(command_of(options), "\n", wrapped(result.answer, "  ")));
  return publish(result.confirmation, to_markdown(result), to_json(result));
}

static const AddVerb tune_verb(
    {"tune", "finds the fastest settings of a config in a limited time",
     "trainer tune --config configs/lenet.yaml --budget 60s --out fast.yaml", run_tune, "measure"});

}  // namespace bellows
