// Page of a run folder, as read_run() of trainer/state/run_record.h returns it.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/base/check.h"
#include "core/base/statistics.h"
#include "core/base/words.h"
#include "labs/page/charts.h"
#include "labs/page/html.h"
#include "labs/page/page.h"
#include "trainer/log/system.h"
#include "trainer/state/run_record.h"

namespace bellows {

using Column = std::vector<double>;

static std::string setting(const Json& run, const std::string& key) {
  for (const Json& each : run.at("plan"))
    if (each[0] == key) return each[1];
  return "";
}

// ---- the key numbers

static bool is_share(const std::string& metric) { return metric.starts_with("accuracy"); }

static std::string metric_text(const std::string& metric, double value) {
  return is_share(metric) ? percent_text(value) : fmt::format("{:.4f}", value);
}

static std::string numbers_of(const Json& run) {
  const Json &train = run.at("train"), &test = run.at("test"), &totals = run.at("totals");
  std::vector<KeyNumber> numbers;
  for (const std::string& metric : metrics_in(test)) {
    const Column values = finite(column(test, metric));
    if (values.empty() || metric == "accuracy_top5") continue;
    numbers.push_back(
        {"test " + escaped(metric), metric_text(metric, values.back()),
         fmt::format("best {} of {}", metric_text(metric, best_of(run, metric, values)),
                     count_of(std::ssize(values), "evaluation"))});
  }
  const Column loss = finite(column(train, "loss"));
  if (!loss.empty())
    numbers.push_back({"training loss", fmt::format("{:.4f}", loss.back()),
                       fmt::format("from {:.4f}", loss.front())});
  const Column ips = finite(column(train, "ips")), step = finite(column(train, "batch_cost"));
  if (!ips.empty())
    numbers.push_back({"samples a second", short_number(median(ips)), "median of the log windows"});
  if (!step.empty())
    numbers.push_back({"step", seconds_text(median(step)), "median of the log windows"});
  const double time = number_in(totals, "elapsed_s");
  if (std::isfinite(time))
    numbers.push_back({"time", seconds_text(time),
                       cat(count_of(int64_t(number_in(totals, "epoch")), "epoch"), ", ",
                           count_of(int64_t(number_in(totals, "step")), "step"))});
  return key_numbers(numbers);
}

// ---- figures

static Series series(const std::string& name, Tone tone, const Json& rows, const std::string& key,
                     double factor = 1) {
  return {name, tone, column(rows, "step"), column(rows, key, factor)};
}

// A chart of one column of the log windows, from zero on.
static std::string chart_of(const char* title, const char* note, const Series& s,
                            const char* unit = "") {
  return line_chart(
      {.title = title, .note = note, .unit = unit, .series = {s}, .y_axis = YAxis::from_zero});
}

static YAxis axis_for(const std::vector<Series>& all) {
  double low = INFINITY, high = 0;
  for (const Series& s : all)
    for (const double y : finite(s.y)) low = std::min(low, y), high = std::max(high, y);
  return low > 0 && high > 20 * low ? YAxis::log : YAxis::from_zero;
}

static std::string learning(const Json& run) {
  const Json &train = run.at("train"), &test = run.at("test");
  std::vector<Series> losses = {series("test", Tone::other, test, "loss"),
                                series("train", Tone::accent, train, "loss")};
  const YAxis axis = axis_for(losses);
  std::string figures =
      line_chart({.title = "Loss",
                  .note = axis == YAxis::log ? "of each log window and of the test set; logarithmic"
                                             : "of each log window and of the test set",
                  .series = losses,
                  .y_axis = axis});
  LineChart shares{.title = "Accuracy", .note = "of the test set, in %", .unit = " %"};
  for (const std::string& metric : metrics_in(test)) {
    if (metric == "loss") continue;
    const Tone tone = shares.series.empty() ? Tone::accent : Tone::quiet;
    if (is_share(metric))
      shares.series.push_back(series(metric == "accuracy"        ? "top 1"
                                     : metric == "accuracy_top5" ? "top 5"
                                                                 : metric,
                                     tone, test, metric, 100));
    else
      figures += line_chart({.title = metric,
                             .note = "of the test set",
                             .series = {series(metric, Tone::accent, test, metric)}});
  }
  return figures + line_chart(shares) +
         chart_of("Learning rate", "", series("lr", Tone::quiet, train, "lr"));
}

// Adds up to batch_cost. With several ranks, the waits of the slowest one.
static std::string step_parts(const Json& train) {
  const Column step = column(train, "step"), reading = column(train, "reader_cost", 1e3);
  Column waiting(step.size(), 0), rest = column(train, "batch_cost", 1e3);
  bool waits = false;
  if (const auto found = train.find("wait_by_rank"); found != train.end())
    for (size_t i = 0; i < std::min(step.size(), found->size()); ++i)
      for (const Json& wait : (*found)[i])
        waits = true, waiting[i] = std::max(waiting[i], 1e3 * wait.get<double>());
  for (size_t i = 0; i < std::min(rest.size(), reading.size()); ++i)
    rest[i] = std::max(rest[i] - reading[i] - waiting[i], 0.0);  // NaN stays
  LineChart chart{.title = "Time of a step",
                  .note = "batch_cost and its part reader_cost",
                  .unit = " ms",
                  .stacked = true};
  chart.series.push_back({"compute", Tone::accent, step, rest});
  if (waits) chart.series.push_back({"waiting", Tone::quiet, step, waiting});
  chart.series.push_back({"reading", Tone::other, step, reading});
  // The first window also holds what is done once, such as the choice of kernels.
  if (const double first = rest.empty() ? 0 : rest[0] + reading[0] + waiting[0]; step.size() > 10) {
    for (Series& s : chart.series) s.x.erase(s.x.begin()), s.y.erase(s.y.begin());
    chart.note += fmt::format("; the first window took {:.3g} ms", first);
  }
  return line_chart(chart);
}

static std::string whole_run(const Json& totals) {
  const double all = number_in(totals, "elapsed_s");
  double known = 0;
  std::vector<Share> parts;
  for (const auto& [key, name] : {std::pair("step_s", "steps"),
                                  {"load_s", "waiting for data"},
                                  {"eval_s", "evaluation"},
                                  {"save_s", "saving"}}) {
    const double seconds = number_in(totals, key);
    if (!std::isfinite(seconds)) return "";
    known += seconds;
    parts.push_back({name, seconds, seconds_text(seconds)});
  }
  if (all > known) parts.push_back({"other", all - known, seconds_text(all - known)});
  return share_bar("The whole run", "where the time went", parts);
}

static std::string resources(const Json& run) {
  const Json& train = run.at("train");
  return line_chart({.title = "Memory",
                     .note = "largest so far: of the process, and of tensors",
                     .unit = " MB",
                     .series = {series("process", Tone::quiet, train, "peak_resident_bytes", 1e-6),
                                series("tensors", Tone::accent, train, "max_mem_allocated", 1e-6)},
                     .y_axis = YAxis::from_zero}) +
         chart_of("CPU", "cores that the process kept busy",
                  series("cores", Tone::accent, train, "cpu_cores")) +
         chart_of("GPU", "share of the time in which a kernel ran, in %",
                  series("busy", Tone::accent, train, "gpu_utilization", 100), " %");
}

// ---- tables

// At most kMost rows, evenly chosen, with the last one.
static std::string folded_rows(const char* title, const Json& rows) {
  constexpr size_t kMost = 60;
  HtmlTable table;
  std::vector<Column> columns;
  static const std::string sides(64, 'r');
  table.sides = sides;
  for (const auto& [name, values] : rows.items()) {
    const auto is_list = [](const Json& value) { return value.is_array(); };
    if (name == "ts" || std::ranges::any_of(values, is_list)) continue;
    table.columns.push_back(escaped(name));
    columns.push_back(column(rows, name));
  }
  if (columns.empty()) return "";
  const size_t count = columns.front().size(), shown = std::min(count, kMost);
  for (size_t i = 1; i <= shown; ++i) {
    std::vector<std::string> cells;
    for (const Column& values : columns)
      cells.push_back(short_number(values[i * count / shown - 1]));
    table.rows.push_back(cells);
  }
  return fold(count > kMost ? fmt::format("{}: {} of {}", title, kMost, count)
                            : fmt::format("{}: {}", title, count),
              html_of(table));
}

static std::string toggles_of(const Json& run) {
  Names ran, idle, unknown;
  for (const Json& toggle : run.at("toggles")) {
    const std::string value = toggle.at("value");
    const bool counted = toggle.contains("count");
    const bool has_run = counted && (toggle["count"] != 0 || toggle.value("superseded", false));
    (has_run   ? ran
     : counted ? idle
               : unknown)
        .push_back(toggle.at("name").get<std::string>() + (value == "on" ? "" : "=" + value));
  }
  return names_list("Ran", "their footprints counted", ran) +
         names_list("Never ran", "on, with nothing to do here", idle, true) +
         names_list("On", "the folder does not say which of them ran", unknown);
}

static std::string configuration(const Json& run) {
  HtmlTable table{{"option", "value", "set by"}, "lll"};
  for (const Json& each : run.at("plan")) {
    const std::string origin = each[2];
    if (origin == "default" || origin.starts_with("off, ") || each[1] == "default") continue;
    table.rows.push_back(
        {code(each[0].get<std::string>()), escaped(each[1].get<std::string>()), escaped(origin)});
  }
  return (table.rows.empty() ? "<p>Every option has its default.</p>\n" : html_of(table)) +
         fold("plan.yaml: every option and where it was set",
              "<pre>" + escaped(run.at("plan_text").get<std::string>()) + "</pre>\n");
}

// Names no host and no folder, so that the page can be shown to others.
static std::string machine(const Json& environment) {
  Json shown = Json::object();
  for (const char* key :
       {"cpu", "vector_units", "cores", "threads", "memory_bytes", "kernel", "openmp_runtime",
        "blas_library", "allocator", "flags", "commit", "versions", "variables"})
    if (const auto found = environment.find(key); found != environment.end()) shown[key] = *found;
  return shown.empty() ? "" : facts_of(shown);
}

// ---- the page

static Page run_page(const Json& run) {
  const Json &env = run.at("env"), &train = run.at("train");
  Names about;
  if (const std::string model = setting(run, "model.name"); !model.empty())
    about.push_back(cat(model, " on ", setting(run, "data.name")));
  if (env.contains("cpu")) about.push_back(env["cpu"]);
  if (const Column ts = column(train, "ts"); !ts.empty() && std::isfinite(ts.back()))
    about.push_back(date_text(ts.back()));
  if (run.at("totals").empty()) about.push_back("no end is recorded: it runs, or was killed");
  std::string summary;
  for (const Json& line : run.at("summary")) summary += escaped(line.get<std::string>()) + "\n";
  if (!summary.empty()) summary = "<pre>" + summary + "</pre>\n";
  return {.over = "Bellows · training run",
          .title = setting(run, "name"),
          .about = fmt::format("{}", fmt::join(about, " · ")),
          .body = numbers_of(run) +
                  section("Learning",
                          grid(learning(run)) + folded_rows("Evaluations", run.at("test"))) +
                  section("Speed", grid(chart_of("Samples a second", "ips of each log window",
                                                 series("ips", Tone::accent, train, "ips")) +
                                        step_parts(train) + whole_run(run.at("totals"))) +
                                       folded_rows("Log windows", train)) +
                  section("Resources", grid(resources(run))) + section("Toggles", toggles_of(run)) +
                  section("Configuration", configuration(run)) + section("Machine", machine(env)) +
                  section("Summary", summary)};
}

static const AddPage run_page_entry("run", run_page);

}  // namespace bellows
