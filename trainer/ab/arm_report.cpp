#include "trainer/ab/arm_report.h"
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include "core/base/file.h"
#include "core/base/output.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "trainer/verbs/command_line.h"
#include "trainer/verbs/tables.h"

namespace bellows {

// ---- the command line

void declare_config(CommandLine& line, ArmOptions& o) {
  line.add_option("overrides", o.overrides, "key=value: options of all arms");
  line.add_option("--config,-c", o.config, "YAML file").required();
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
  line.add_option("--timeout", o.timeout_s, "limit for one block, in seconds").positive();
  line.add_option(
      "--report", o.report,
      "Markdown file to write, FILE.md; FILE.json and the page FILE.html are written beside it");
}

double budget_of(const std::string& verb, const std::string& text) {
  if (text.empty()) return 0;
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string unit = end;
  const double seconds = unit == "m" ? 60 * amount : amount;
  constexpr double kLongest = 1e7;
  CHECK(error == std::errc() && (unit == "s" || unit == "m") && seconds > 0 && seconds < kLongest,
        verb, ": --budget: '", text,
        "' is not a duration; write seconds or minutes, such as 90s or 2m, below 1e7 s");
  return seconds;
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

void check_report(const ArmOptions& o) {
  const Path report = o.report;
  if (report.empty()) return;
  CHECK(report.extension() == ".md", o.verb, ": --report ", report.string(),
        ": the report is Markdown; write  --report ",
        quoted(Path(report).replace_extension(".md").string()));
  check_place(report, cat(o.verb, ": --report"));
}

int publish(const RoundsResult& result, const std::string& markdown, Json json) {
  const int code = result.signal ? 128 + result.signal : 0;
  say("");
  say_part(markdown);
  if (result.options.report.empty()) return code;
  Path path = result.options.report;
  json["text"] = markdown;
  write_file(path, bytes_of(markdown));
  write_file(path.replace_extension(".json"),
             bytes_of(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"));
  if (page_writer())
    write_file(path.replace_extension(".html"), bytes_of(page_writer()(json, result.options.verb)));
  return code;
}

std::string command_of(const RoundsResult& result) {
  const ArmOptions& o = result.options;
  std::string text = "trainer ";
  if (o.ranks > 1) text += fmt::format("launch --ranks {} -- ", o.ranks);
  text += cat(o.verb, " --config ", quoted(o.config), result.words);
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

std::string measurement_text(const RoundsResult& result) {
  std::string text = fmt::format("    {}\n\n", printable(command_of(result)));
  for (const auto& [key, value] : result.machine.items())
    text +=
        fmt::format("- {}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

// ---- results

static bool differs(const Speedup& s, const RoundsResult& result) {
  const Verdict verdict = judge(s, placebo_speedup(result));
  return verdict == Verdict::faster || verdict == Verdict::slower;
}

std::string ratio_text(const Speedup& s) {
  if (s.rounds < 2) return fmt::format("{:.3f} x (no interval)", s.ratio);
  return fmt::format("{:.3f} x ({:.4g} % interval {:.3f} to {:.3f})", s.ratio, 100 * (1 - s.error),
                     s.interval.low, s.interval.high);
}

Json speedup_json(const Speedup& s, const RoundsResult& result) {
  return {{"ratio", s.ratio},
          {"differs", differs(s, result)},
          {"interval", {s.interval.low, s.interval.high}},
          {"confidence", 1 - s.error},
          {"variance_between_processes", s.between}};
}

Speedup mean_run_s(const AbArm& arm, const ArmOptions& options) {
  LogRatios runs;
  for (const double s : costs_of(arm, options, Clock::wall)) runs.push_back({std::log(s)});
  return speedup(runs);
}

Json arm_json(const AbArm& arm, const ArmOptions& options) {
  const auto costs = [&](const AbProcess& process, Clock clock) {
    return costs_of(process, options, clock);
  };
  const std::string unit = options.measure == AbMeasure::target ? "run" : "step";
  const AbEnd& end = arm.processes.front().end;
  Json json = {{"name", arm.name}, {"loss_by_step", end.losses}, {"processes", Json::array()}};
  for (const AbProcess& process : arm.processes) {
    json["processes"].push_back({{"wall_s_per_" + unit, costs(process, Clock::wall)},
                                 {"cpu_s_per_" + unit, costs(process, Clock::cpu)},
                                 {"samples", process.end.samples},
                                 {"cpu_s_waiting", process.cpu_s_waiting},
                                 {"peak_tensor_bytes", process.end.peak_tensor_bytes},
                                 {"peak_resident_bytes", process.end.peak_resident_bytes}});
    if (const auto joules = energies_of(process, options); !joules.empty())
      json["processes"].back()["gpu_j_per_" + unit] = joules;
  }
  if (options.measure != AbMeasure::target) return json;
  const Speedup mean = mean_run_s(arm, options);
  json["mean_s_per_run"] = mean.ratio;
  if (mean.rounds > 1) json["mean_s_per_run_interval"] = {mean.interval.low, mean.interval.high};
  return json;
}

Json placebo_json(const RoundsResult& result) {
  Json json = arm_json(result.placebo, result.options);
  json["speedup"] = speedup_json(placebo_speedup(result), result);
  return json;
}

Json counters_json(const AbArm& before, const AbArm& after) {
  Json counters = Json::object();
  for (const auto& [name, off, on] : differing_counters(before, after)) counters[name] = {off, on};
  return counters;
}

int64_t tensor_bytes(const AbArm& arm) {
  return largest(arm, [](const AbProcess& p) { return p.end.peak_tensor_bytes; });
}
int64_t resident_bytes(const AbArm& arm) {
  return largest(arm, [](const AbProcess& p) { return p.end.peak_resident_bytes; });
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.2f}", bytes / 1e6); }

std::string ended_early(const RoundsResult& result) {
  const int64_t done = std::ssize(result.placebo.processes);
  if (done == result.planned) return "";
  const std::string why = result.signal  ? fmt::format("interrupted by signal {}", result.signal)
                          : result.clear ? "the answer was clear"
                                         : "the budget was spent";
  return fmt::format("- ended early: {} after {} of {} processes a side\n", why, done,
                     result.planned);
}

std::string rounds_list(const RoundsResult& result) {
  const Names busy = result.busy.reasons();
  return cat(ended_early(result),
             list_item(cat("placebo, ", result.baseline().name,
                           " against itself: ", ratio_text(placebo_speedup(result)))),
             list_item(cat(result.placebo.processes.size(), " processes a side")),
             busy.empty() ? "" : list_item(cat("busy machine: ", joined(busy))));
}

std::string list_item(const std::string& text) { return wrapped("- " + text, "  ") + "\n"; }

std::string message(const std::string& verb, const std::string& text) {
  return wrapped(cat(verb, ": ", text), "  ") + "\n";
}

std::string ms(double seconds) { return fmt::format("{:.4g}", 1e3 * seconds); }

std::string marked(const Speedup& s, const RoundsResult& result) {
  if (s.rounds < 2) return fmt::format("{:.3f}", s.ratio);
  return fmt::format("{:.3f} ({:.3f}, {:.3f}) {}", s.ratio, s.interval.low, s.interval.high,
                     differs(s, result) ? "*" : " ");
}

std::string markdown_table(const std::vector<Names>& rows) {
  std::vector<size_t> widths(rows.front().size(), 3);
  for (const Names& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  const auto add = [&](const Names& row) {
    for (size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? fmt::format("| {:<{}} |", row[i], widths[i])
                     : fmt::format(" {:>{}} |", row[i], widths[i]);
    text += "\n";
  };
  add(rows.front());
  for (size_t i = 0; i < widths.size(); ++i)
    text += i == 0 ? "|" + std::string(widths[i] + 2, '-') + "|"
                   : std::string(widths[i] + 1, '-') + ":|";
  text += "\n";
  for (size_t r = 1; r < rows.size(); ++r) add(rows[r]);
  return text;
}

}  // namespace bellows
