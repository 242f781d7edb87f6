// The verb `ab`.
#include "trainer/ab/ab.h"
#include <fmt/format.h>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include "core/base/file.h"
#include "core/base/output.h"
#include "dist/rendezvous/rendezvous.h"
#include "trainer/ab/rounds.h"
#include "trainer/log/system.h"
#include "trainer/page/page.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

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

// A subset of environment(): the report is published, so it names no host and no folder.
static Json machine_now() {
  const Json all = environment();
  Json machine = {{"date", today()},
                  {"cpu", all["cpu"]},
                  {"cores", all["cores"]},
                  {"governor", governor()},
                  {"load average before", load_average()}};
  for (const char* key : {"kernel", "commit", "versions", "variables"})
    if (!all[key].empty() && all[key] != "") machine[key] = all[key];
  return machine;
}

// ---- the verb

static void check_report(const std::filesystem::path& report) {
  if (report.empty()) return;
  CHECK(report.extension() == ".md", "ab: --report ", report.string(),
        ": the report is Markdown; write  --report ", report.stem().string(), ".md");
  const Path folder = report.has_parent_path() ? report.parent_path() : ".";
  CHECK(kind_of(folder, Exit::usage) == Kind::folder, "ab: --report: no folder ", folder.string());
}

static void write_report(std::filesystem::path path, const AbResult& result) {
  write_file(path, bytes_of(to_markdown(result)));
  const Json json = to_json(result);
  write_file(path.replace_extension(".json"), bytes_of(json.dump(1) + "\n"));
  write_file(path.replace_extension(".html"), bytes_of(html_of(json, "ab")));
}

namespace {
struct AbLine {
  AbOptions options;
  std::string values, budget, target, measure = "step", clock = "wall";
  ArmProcessOptions process;  // set only when this process is one of the arms
};
}  // namespace

static void declare(CommandLine& line, AbLine& given) {
  AbOptions& o = given.options;
  ArmProcessOptions& p = given.process;
  line.add_option("overrides", o.overrides, "key=value: options of all arms");
  line.add_option("--config,-c", o.config, "YAML file").required();
  const auto toggle = line.add_option("--toggle", o.toggle, "the toggle in which the arms differ");
  line.add_option("--value", given.values,
                  "values of the arms that have it on, such as 1,2,4 (default: the one of "
                  "`toggles: all`)");
  line.add_option("--against", o.against,
                  "YAML file of the other arm, instead of --toggle; its differences are listed")
      .excludes(toggle);
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
  const auto processes =
      line.add_option("--processes", o.processes, "processes per arm").positive();
  line.add_option("--budget", given.budget,
                  "time for all processes, such as 90s or 2m; ends earlier once the answer is "
                  "clear")
      .excludes(processes);
  line.add_option("--blocks", o.blocks, "blocks per process").positive();
  line.add_option("--steps", o.steps, "steps per block").positive();
  line.add_option("--warmup", o.warmup, "steps before the first block").positive();
  line.add_option("--timeout", o.timeout_s, "limit for one block, in seconds").positive();
  line.add_option(
      "--report", o.report,
      "Markdown file to write, FILE.md; FILE.json and the page FILE.html are written beside it");
  line.add_option("--arm-folder", p.folder, "").hidden();
  line.add_option("--parent", p.parent, "").hidden();
  line.add_option("--round", p.round, "").hidden();
  line.add_option("--mantissa", p.mantissa, "").hidden();
  line.add_flag("--placebo", p.placebo, "").hidden();
}

double seconds_of(const std::string& text, const char* option) {
  if (text.empty()) return 0;
  char unit = 0, rest = 0;
  double amount = 0;
  const bool fits = std::sscanf(text.c_str(), "%lf%c%c", &amount, &unit, &rest) == 2;
  CHECK(fits && amount > 0 && (unit == 's' || unit == 'm'), option, ": '", text,
        "' is no time; write seconds or minutes, such as 90s or 2m");
  return unit == 'm' ? 60 * amount : amount;
}

static Names split(const std::string& list) {
  Names parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

static void time_to(AbOptions& options, const std::string& target) {
  const size_t equals = target.find('=');
  char rest = 0;
  const bool fits = equals != std::string::npos && std::sscanf(target.c_str() + equals + 1, "%lf%c",
                                                               &options.target.value, &rest) == 1;
  CHECK(fits, "ab: --time-to: '", target,
        "' is no target; write a metric and its value, such as accuracy=0.98");
  options.target.metric = target.substr(0, equals);
  options.measure = AbMeasure::target;
  options.blocks = 1;
}

static void settle_values(AbOptions& options, const Toggle& toggle) {
  options.toggle = toggle.name;  // not an alias
  if (options.values.empty()) options.values = {suggested(toggle)};
  check_arms(options, toggle);
}

static int run(const Arguments& args) {
  CommandLine line = verb_line("ab");
  AbLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  AbOptions& options = given.options;
  options.measure = given.measure == "step" ? AbMeasure::step : AbMeasure::epoch;
  if (!given.target.empty()) time_to(options, given.target);
  options.clock = given.clock == "wall" ? Clock::wall : Clock::cpu;
  options.budget_s = seconds_of(given.budget, "ab: --budget");
  options.values = split(given.values);
  CHECK(options.toggle.empty() != options.against.empty() || !given.process.folder.empty(),
        "ab: name the difference between the arms with either --toggle or --against");
  const Toggle* const toggle =
      options.toggle.empty() ? nullptr : &known_toggle(options.toggle, "ab");
  if (!given.process.folder.empty())
    return run_arm(arm_plan(options, toggle, given.values), options, given.process);
  if (toggle) settle_values(options, *toggle);
  check_report(options.report);
  const Ranks ranks = this_rank(arm_plan(options, toggle, toggle ? toggle->off() : "").dist);
  options.ranks = ranks.world;
  Json machine = machine_now();
  AbResult result = run_rounds(options, toggle);
  if (ranks.rank > 0) return 0;
  machine["load average after"] = load_average();
  result.machine = std::move(machine);
  say("");
  say_part(to_markdown(result));
  if (!options.report.empty()) write_report(options.report, result);
  for (const AbArm& arm : result.on)
    if (const Finding losses = compare_losses(result, arm); !losses.good)
      fail(Exit::numeric, "ab: ", arm.name,
           ": the losses differ by more than they may: ", losses.text);
  return result.signal ? 128 + result.signal : 0;
}

static const AddVerb verb({"ab",
                           "compares runs that differ in one toggle, with a confidence interval",
                           "trainer ab --config configs/lenet.yaml --toggle num_workers --value 2",
                           run});

}  // namespace bellows
