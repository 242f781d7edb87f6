// The verb `ab`: first a placebo (the off arm against itself), then off against on.
#include "trainer/ab/ab.h"
#include <fmt/format.h>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include "core/base/file.h"
#include "core/base/output.h"
#include "dist/rendezvous/rendezvous.h"
#include "trainer/launch/reserved_port.h"
#include "trainer/log/system.h"
#include "trainer/state/scratch_folder.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// ---- the arms

namespace {
// Where a launcher has started several ranks, each runs `ab` and starts its own rank of every arm.
// The ranks of an arm meet at a store of their own, on a port that rank 0 chooses.
class ArmPorts {
 public:
  ArmPorts(const DistOptions& dist, double timeout_s)
      : rank_(this_rank(dist).rank),
        store_(meet(this_rank(dist), dist)),
        timeout_(static_cast<int64_t>(1000 * timeout_s)) {}

  // Returns the setting for the next arm, the same on all ranks; none in a world of one.
  Names next() {
    if (!store_) return {};
    const std::string arm = cat("arm ", ++arms_);
    if (rank_ == 0) store_->set(arm, std::to_string(reserved_.emplace_back().number()));
    return {cat("dist.store_port=", store_->get(arm, timeout_))};
  }

 private:
  int rank_;
  std::shared_ptr<Store> store_;
  Timeout timeout_;
  int arms_ = 0;
  std::deque<ReservedPort> reserved_;
};
}  // namespace

static ArmCommand arm_command(const AbOptions& options, const std::string& value,
                              const std::string& folder, const Names& more) {
  std::vector<std::string> argv = {"/proc/self/exe", "ab", "--arm", value, "--folder", folder};
  const auto add = [&](const char* option, const std::string& text) {
    argv.insert(argv.end(), {option, text});
  };
  add("--config", options.config);
  add("--toggle", options.toggle);
  add("--measure", options.measure == AbMeasure::step ? "step" : "epoch");
  add("--steps", std::to_string(options.steps));
  add("--blocks", std::to_string(options.blocks));
  add("--warmup", std::to_string(options.warmup));
  argv.insert(argv.end(), options.overrides.begin(), options.overrides.end());
  argv.insert(argv.end(), more.begin(), more.end());
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

static AbResult measure(const AbOptions& options, const Toggle& toggle, const DistOptions& dist) {
  const ScratchFolder scratch;
  ArmPorts ports(dist, options.timeout_s);
  AbResult result = {options, &toggle, forced_off(options, toggle), {}, {}, machine_now()};
  const auto tell = [&](const std::string& text) {
    if (this_rank(dist).rank == 0) say(text);
  };
  if (!result.forced_off.empty()) tell(cat("ab: ", forced_off_text(result)));
  AbProgress progress(options);
  const auto compare = [&](const std::string& title, const std::string& value) {
    const ArmCommand off = arm_command(options, toggle.off(), scratch / "off", ports.next());
    const ArmCommand other = arm_command(options, value, scratch / "other", ports.next());
    tell("ab: " + title);
    progress.begin(title);
    const AbPair pair = interleave(off, other, options.blocks, options.timeout_s,
                                   [&](const AbBlock& block) { progress.add(block); });
    progress.clear();
    return pair;
  };
  const std::string off = cat(toggle.name, "=", toggle.off());
  result.placebo = compare(cat("placebo, ", off, " against itself"), toggle.off());
  result.measured = compare(cat(off, " against ", toggle.name, "=", options.value), options.value);
  tell("");
  result.machine["load average after"] = load_average();
  return result;
}

static void check_report(const std::filesystem::path& report) {
  if (report.empty()) return;
  CHECK(report.extension() == ".md", "ab: --report ", report.string(),
        ": the report is Markdown; write  --report ", report.stem().string(), ".md");
  const Path folder = report.has_parent_path() ? report.parent_path() : ".";
  CHECK(kind_of(folder, Exit::usage) == Kind::folder, "ab: --report: no folder ", folder.string());
}

static void write_report(std::filesystem::path path, const AbResult& result) {
  write_file(path, bytes_of(to_markdown(result)));
  write_file(path.replace_extension(".json"), bytes_of(to_json(result).dump(1) + "\n"));
}

namespace {
struct AbLine {
  AbOptions options;
  std::string measure = "step", clock = "wall";
  std::string arm, folder;  // set only when this process is one of the arms
};
}  // namespace

static void declare(CommandLine& line, AbLine& given) {
  AbOptions& o = given.options;
  line.add_option("overrides", o.overrides, "key=value: options of both arms");
  line.add_option("--config,-c", o.config, "YAML file").required();
  line.add_option("--toggle", o.toggle, "the toggle in which the arms differ").required();
  line.add_option("--value", o.value,
                  "value in the arm that has it on (default: the one of `toggles: all`)");
  line.add_option("--measure", given.measure,
                  "step: training steps only; epoch: whole epochs, with evaluation and "
                  "checkpoint")
      .one_of({"step", "epoch"});
  line.add_option("--clock", given.clock,
                  "wall: elapsed time; cpu: CPU time of the process, for one thread on a busy "
                  "machine")
      .one_of({"wall", "cpu"});
  line.add_option("--steps", o.steps, "steps per block").positive();
  line.add_option("--blocks", o.blocks, "blocks per arm").positive();
  line.add_option("--warmup", o.warmup, "steps before the first block").positive();
  line.add_option("--timeout", o.timeout_s, "limit for one block, in seconds").positive();
  line.add_option("--report", o.report,
                  "Markdown file to write, FILE.md; FILE.json is written beside it");
  line.add_option("--arm", given.arm, "").hidden();
  line.add_option("--folder", given.folder, "").hidden();
}

static int run(const Arguments& args) {
  CommandLine line = verb_line("ab");
  AbLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  AbOptions& options = given.options;
  options.measure = given.measure == "step" ? AbMeasure::step : AbMeasure::epoch;
  options.clock = given.clock == "wall" ? Clock::wall : Clock::cpu;
  const Toggle& toggle = known_toggle(options.toggle, "ab");
  CHECK(given.arm.empty() == given.folder.empty(),
        "ab: --arm is for the processes that ab starts itself; leave it out");
  if (!given.arm.empty())
    return run_arm(arm_config(options, toggle, given.arm).plan, options, given.folder);
  options.toggle = toggle.name;
  if (options.value.empty()) options.value = suggested(toggle);
  check_arms(options, toggle);
  check_report(options.report);
  const DistOptions dist = arm_config(options, toggle, toggle.off()).plan.dist;
  options.ranks = this_rank(dist).world;
  const AbResult result = measure(options, toggle, dist);
  if (this_rank(dist).rank > 0) return 0;
  say_part(to_markdown(result));
  if (!options.report.empty()) write_report(options.report, result);
  const Finding losses = compare_losses(toggle, result.measured);
  if (!losses.good)
    fail(Exit::numeric, "ab: ", toggle.name,
         ": the losses differ by more than the toggle allows: ", losses.text);
  return 0;
}

static const AddVerb verb(
    {"ab", "compares two runs that differ in one toggle, with a confidence interval",
     "trainer ab --config configs/lenet.yaml --toggle num_workers --value 2", run});

}  // namespace bellows
