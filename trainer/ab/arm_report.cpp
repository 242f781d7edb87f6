#include "trainer/ab/arm_report.h"
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include "core/base/file.h"
#include "core/base/output.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "core/device/topology.h"
#include "plan/toggle.h"
#include "trainer/log/system.h"
#include "trainer/session/planted_load.h"
#include "trainer/verbs/tables.h"

namespace bellows {

// ---- the command line

void declare_config(CommandLine& line, ArmOptions& o) {
  line.add_option("overrides", o.overrides, "key=value: options of all arms");
  line.add_option("--config,-c", o.config, "YAML file").required();
}

void declare_report(CommandLine& line, ArmOptions& o) {
  line.add_option("--timeout", o.timeout_s, "limit for one block, in seconds").positive();
  line.add_option(
      "--report", o.report,
      "Markdown file to write, FILE.md; FILE.json and the page FILE.html are written beside it");
}

void declare_rounds(CommandLine& line, ArmOptions& o, std::string& budget) {
  const auto processes =
      line.add_option("--processes", o.processes, "processes per arm").positive();
  line.add_option("--budget", budget,
                  cat("time for all processes, such as 90s or 2m",
                      o.verb == "ab" ? "; ends earlier once the answer is clear" : ""))
      .excludes(processes);
  line.add_option("--blocks", o.blocks, "blocks per process").positive();
  line.add_option("--steps", o.steps, "steps per block").positive();
  line.add_option("--warmup", o.warmup, "steps before the first block").positive();
  declare_report(line, o);
}

void limit_time(ArmOptions& options, const std::string& text) {
  if (text.empty()) return;
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string unit = end;
  const double seconds = unit == "m" ? 60 * amount : amount;
  constexpr double kLongest = 1e7;
  CHECK(error == std::errc() && (unit == "s" || unit == "m") && seconds > 0 && seconds < kLongest,
        options.verb, ": --budget: '", text,
        "' is not a duration; write seconds or minutes, such as 90s or 2m, below 1e7 s");
  options.budget_s = seconds;
  options.processes = std::numeric_limits<int64_t>::max();
}

static Plan common_plan(const ArmOptions& o) {
  return make_config(read_sources(o.config, o.overrides)).plan;
}

void settle_planted_load(ArmOptions& options) {
  Plan plan = common_plan(options);
  if (plan.sim.compute != kAutoCompute) return;
  settle_planted_load(plan);
  std::erase(options.overrides, "sim.compute=auto");
  options.overrides.push_back(cat("sim.compute=", plan.sim.compute));
}

Names split(const std::string& list) {
  Names parts;
  int depth = 0;
  bool open = false;  // the last part may still grow
  for (const char c : list) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (!open) parts.emplace_back();
    open = c != ',' || depth > 0;
    if (open) parts.back() += c;
  }
  return parts;
}

void prepare(ArmOptions& options, const std::string& budget) {
  limit_time(options, budget);
  const Path report = options.report;
  CHECK(report.empty() || report.extension() == ".md", options.verb, ": --report ", report.string(),
        ": the report is Markdown; write  --report ",
        quoted(Path(report).replace_extension(".md").string()));
  check_place(report, cat(options.verb, ": --report"));  // no-op without a report
  settle_planted_load(options);
}

void announce(const std::string& verb, const std::string& text) {
  say_wrapped(cat(verb, ": ", text));
}

std::string terminal_text(const std::string& markdown) {
  std::istringstream lines(markdown);
  std::string text;
  std::vector<TableRow> rows;
  const auto table = [&] {
    const TableRow heads = rows.empty() ? TableRow() : rows[0];
    return fitted_table(std::exchange(rows, {}), heads, "lrrrrrrrrrrr");
  };
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) {
      for (size_t bold; (bold = line.find("**")) != line.npos;) line.erase(bold, 2);
      if (line.starts_with("#")) line.erase(0, line.find(' ') + 1);  // a title
      text += table() + (line.starts_with("    ") ? line : wrapped(line, "  ")) + "\n";
    } else if (!line.starts_with("|--")) {
      TableRow& row = rows.emplace_back();
      for (size_t at = 1, end; (end = line.find('|', at)) != line.npos; at = end + 1)
        row.push_back(end > at + 2 ? line.substr(at + 1, end - at - 2) : "");
    }
  }
  return text + table();
}

int publish(const Comparison& c, const std::string& markdown, Json json) {
  const int code = c.signal ? 128 + c.signal : 0;
  say("");
  say_verdicts(terminal_text(markdown));
  if (c.options.report.empty()) return code;
  Path path = c.options.report;
  json["text"] = markdown;
  write_file(path, bytes_of(markdown));
  write_file(path.replace_extension(".json"),
             bytes_of(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"));
  if (page_writer())
    write_file(path.replace_extension(".html"), bytes_of(page_writer()(json, c.options.verb)));
  return code;
}

static std::string command_of(const Comparison& c) {
  if (!c.command.empty()) return c.command;
  const ArmOptions& o = c.options;
  std::string text = "trainer ";
  if (o.ranks > 1) text += fmt::format("launch --ranks {} -- ", o.ranks);
  text += cat(o.verb, " --config ", quoted(o.config), c.words);
  text += o.budget_s > 0 ? fmt::format(" --budget {:g}s", o.budget_s)
                         : fmt::format(" --processes {}", o.processes);
  if (o.measure == AbMeasure::target)
    text += fmt::format(" --time-to {}={:g}", o.target.metric, o.target.value);
  else
    text += fmt::format(" --blocks {}", o.blocks);
  if (o.measure == AbMeasure::epoch) text += " --measure epoch";
  if (o.measure == AbMeasure::step)
    text += fmt::format(" --steps {} --warmup {}", o.steps, o.warmup);
  if (o.clock == Clock::cpu) text += " --clock cpu";
  if (o.timeout_s != ArmOptions().timeout_s) text += fmt::format(" --timeout {}", o.timeout_s);
  for (const std::string& assignment : o.overrides) text.append(" ").append(quoted(assignment));
  return text;
}

std::string markdown_table(const std::vector<Names>& rows) {
  std::string text;
  for (const Names& row : rows) {
    text += "|";
    for (const std::string& cell : row) text += cell.empty() ? " |" : cat(" ", cell, " |");
    text += "\n";
    if (&row != &rows.front()) continue;
    for (size_t i = 0; i < row.size(); ++i) text += i ? "---:|" : "|---|";
    text += "\n";
  }
  return text;
}

static std::string speedup_text(const Json& s) {
  const double ratio = s["ratio"], low = s["interval"][0], high = s["interval"][1];
  if (std::isinf(high)) return fmt::format("{:.3f}", ratio);  // an interval of one round has no end
  return fmt::format("{:.3f} ({:.3f}, {:.3f}) {}", ratio, low, high, s["differs"] ? "*" : " ");
}

static std::string cell(const Json& row, const ArmColumn& column) {
  const Json::json_pointer path("/" + column.key);
  if (!row.contains(path)) return column.missing;
  const Json& value = row.at(path);
  if (value.is_string()) return value;
  if (value.is_array()) return fmt::format("{}", fmt::join(value.get<Names>(), " "));
  if (value.is_object()) return speedup_text(value);
  return fmt::format(fmt::runtime(column.format), column.unit * value.get<double>());
}

std::string markdown_table(const Json& rows, const std::vector<ArmColumn>& columns) {
  std::vector<Names> cells(1);
  for (const ArmColumn& column : columns) cells[0].push_back(column.head);
  for (const Json& row : rows) {
    Names& line = cells.emplace_back();
    for (const ArmColumn& column : columns) line.push_back(cell(row, column));
  }
  return markdown_table(cells);
}

std::string ms(double seconds) { return fmt::format("{:.4g}", 1e3 * seconds); }

std::string list_item(const std::string& text) { return wrapped("- " + text, "  ") + "\n"; }

Json speedup_json(const Speedup& s, const Comparison& c) {
  return speedup_json(s, placebo_speedup(c));
}

Json speedup_json(const Speedup& s, const Speedup& placebo) {
  const Verdict verdict = judge(s, placebo);
  return {{"ratio", s.ratio},
          {"differs", verdict == Verdict::faster || verdict == Verdict::slower},
          {"interval", {s.interval.low, s.interval.high}},
          {"confidence", 1 - s.error},
          {"variance_between_processes", s.between}};
}

std::string ratio_text(const Speedup& s) {
  if (s.rounds < 2) return fmt::format("{:.3f} x (no interval)", s.ratio);
  return fmt::format("{:.3f} x ({:.4g} % interval {:.3f} to {:.3f})", s.ratio, 100 * (1 - s.error),
                     s.interval.low, s.interval.high);
}

Speedup mean_run_s(const AbArm& arm, const ArmOptions& options) {
  LogRatios runs;
  for (const double s : costs(arm, options, &AbBlock::wall_s)) runs.push_back({std::log(s)});
  return speedup(runs);
}

Json arm_json(const AbArm& arm, const ArmOptions& options) {
  const bool whole_runs = options.measure == AbMeasure::target;
  const std::string unit = whole_runs ? "run" : "step";
  Json json = {{"name", arm.name},
               {"loss_by_step", arm.processes.front().end.losses},
               {"processes", Json::array()}};
  for (const AbProcess& process : arm.processes) {
    Json& one = json["processes"].emplace_back();
    one = {{"wall_s_per_" + unit, costs(process, options, &AbBlock::wall_s)},
           {"cpu_s_per_" + unit, costs(process, options, &AbBlock::cpu_s)},
           {"samples", process.end.samples},
           {"cpu_s_waiting", process.cpu_s_waiting},
           {"peak_tensor_bytes", process.end.peak_tensor_bytes},
           {"peak_resident_bytes", process.end.peak_resident_bytes}};
    const std::vector<double> joules = costs(process, options, &AbBlock::energy_j);
    if (std::ranges::any_of(joules, [](double j) { return j > 0; }))
      one["gpu_j_per_" + unit] = joules;
  }
  if (!whole_runs) return json;
  const Speedup mean = mean_run_s(arm, options);
  json["mean_s_per_run"] = mean.ratio;
  if (mean.rounds > 1) json["mean_s_per_run_interval"] = {mean.interval.low, mean.interval.high};
  return json;
}

Json report_json(const char* kind, const Comparison& c, const Json& own) {
  Json report = {{"kind", kind}, {"command", command_of(c)}};
  report.update(own);
  report["placebo"] = arm_json(c.placebo, c.options);
  report["placebo"]["speedup"] = speedup_json(placebo_speedup(c), c);
  report["busy"] = c.busy.reasons();
  report["machine"] = c.machine;
  report["planted_load"] = planted_load(common_plan(c.options));
  return report;
}

Json counters_json(const AbArm& before, const AbArm& after) {
  Json counters = Json::object();
  for (const auto& [name, off, on] : differing_counters(before, after)) counters[name] = {off, on};
  return counters;
}

int64_t peak(const AbArm& arm, int64_t AbEnd::*bytes) {
  const auto of = [&](const AbProcess& process) { return process.end.*bytes; };
  return of(*std::ranges::max_element(arm.processes, {}, of));
}

std::string ended_early(const Comparison& c) {
  const int64_t done = std::ssize(c.placebo.processes);
  if (done == c.planned) return "";
  const std::string why = c.signal  ? fmt::format("interrupted by signal {}", c.signal)
                          : c.clear ? "the answer was clear"
                                    : "the budget was spent";
  return fmt::format("- ended early: {} after {} of {} processes a side\n", why, done, c.planned);
}

std::string planted_item(const Comparison& c) {
  const std::string planted = planted_load(common_plan(c.options));
  return planted.empty() ? "" : list_item(planted);
}

std::string rounds_list(const Comparison& c) {
  const Names busy = c.busy.reasons();
  return cat(ended_early(c),
             list_item(cat("placebo, ", c.arms.front().name,
                           " against itself: ", ratio_text(placebo_speedup(c)))),
             list_item(cat(c.placebo.processes.size(), " processes a side")), planted_item(c),
             busy.empty() ? "" : list_item(cat("busy machine: ", joined(busy))));
}

std::string measurement_text(const Comparison& c) {
  std::string text = fmt::format("    {}\n\n", printable(command_of(c)));
  for (const auto& [key, value] : c.machine.items())
    text +=
        fmt::format("- {}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

std::string load_average() {
  double load[3] = {};
  getloadavg(load, 3);
  return fmt::format("{:.2f} {:.2f} {:.2f}", load[0], load[1], load[2]);
}

// Returns a part of environment() that names no host and no folder: reports are published.
Json machine_facts() {
  const Json all = environment();
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  Json machine = {{"date", date_text(wall_seconds())},
                  {"cpu", all["cpu"]},
                  {"cores", all["cores"]},
                  {"governor", governor.empty() ? "unknown" : governor},
                  {"load average before", load_average()}};
  for (const char* key : {"kernel", "commit", "versions", "variables"})
    if (const Json& value = all[key]; !value.empty() && value != Json("")) machine[key] = value;
  return machine;
}

}  // namespace bellows
