// trainer compare RUN RUN: differences of two run folders. Differences of the environment come
// before any ratio, and a group without differences is reported as such.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/base/words.h"
#include "core/config/values.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static void flatten(const std::string& name, const Json& value, Values& facts) {
  if (!value.is_object())
    facts[name].text = plain(value);
  else
    for (const auto& [key, each] : value.items())
      flatten(name.empty() ? key : cat(name, ".", key), each, facts);
}

// Returns the values of that group in env.json, without the process id.
static Values environment(const Json& run, const std::string& group) {
  static const std::map<std::string, std::string> groups = {
      {"versions", "versions"},       {"commit", "versions"},       {"flags", "versions"},
      {"openmp_runtime", "versions"}, {"blas_library", "versions"}, {"allocator", "versions"},
      {"variables", "variables"},     {"libraries", "libraries"},   {"pid", "none"}};
  Values facts;
  for (const auto& [key, value] : run.at("env").items()) {
    const auto found = groups.find(key);
    if ((found == groups.end() ? "machine" : found->second) != group) continue;
    if (group == "libraries")
      for (const Json& path : value) facts[plain(path)].text = "loaded";
    else
      flatten(key == "versions" || key == "variables" ? "" : key, value, facts);
  }
  return facts;
}

static Values plan(const Json& run, const std::string& group) {
  Values facts;
  for (const auto& [key, value] : options_in(run)) {
    const std::string own = key.starts_with("toggles.") ? "toggles"
                            : key.starts_with("data.")  ? "data"
                                                        : "plan";
    if (own == group) facts[key] = value;
  }
  return facts;
}

static Values toggles_that_ran(const Json& run) {
  Values facts;
  for (const Json& toggle : run.at("toggles"))
    if (toggle.contains("count"))
      facts[toggle.at("name")].text = toggle["count"] != 0 ? "ran" : "never ran";
  return facts;
}

// Returns the number of differences. `missing` stands for a value that a run does not record.
static size_t print(const std::string& group, const Values& a, const Values& b,
                    const std::string& missing = "absent") {
  const auto found = differences(a, b, missing);
  const size_t values = std::max(a.size(), b.size());
  if (a.empty() && b.empty())
    say(cat(group, ": neither run records any"));
  else if (found.empty())
    say_verdicts(cat(group, ": no differences in ", count_of(std::ssize(a), "value"), "\n"));
  else
    say(cat(group, ": ", count_of(std::ssize(found), "difference"), " in ",
            count_of(int64_t(values), "value")));
  std::vector<TableRow> rows;
  for (const Difference& d : found) rows.push_back({"  " + d.key, d.a, d.b});
  say_part(fitted_table(rows, {"", "A", "B"}));
  return found.size();
}

static void add_row(std::vector<TableRow>& rows, const std::string& name, double a, double b) {
  const auto text = [](double value) {
    return std::isfinite(value) ? fmt::format("{:.5g}", value) : std::string("-");
  };
  if (std::isfinite(a) || std::isfinite(b))
    rows.push_back({"  " + name, text(a), text(b), b / a > 0 ? fmt::format("{:.3f}", b / a) : "-"});
}

static std::string curve_text(const Json& a, const Json& b) {
  if (a.empty() || b.empty()) return "train loss: a run has no log window";
  const auto steps_a = column(a, "step"), steps_b = column(b, "step");
  if (steps_a[0] != steps_b[0]) return "train loss: the log windows end at different steps";
  const auto loss_a = column(a, "loss"), loss_b = column(b, "loss");
  const size_t both = std::min(loss_a.size(), loss_b.size());
  for (size_t i = 0; i < both; ++i) {
    if (steps_a[i] != steps_b[i])
      return cat("train loss: equal to the last bit in ", count_of(int64_t(i), "log window"),
                 "; later ones end elsewhere");
    if (loss_a[i] != loss_b[i] && !(std::isnan(loss_a[i]) && std::isnan(loss_b[i])))
      return fmt::format("train loss: first differs in the log window that ends at step {}",
                         steps_a[i]);
  }
  return cat("train loss: equal to the last bit in ", count_of(int64_t(both), "log window"),
             loss_a.size() == loss_b.size() ? "" : ", as far as both runs go");
}

static void print_results(const Json& a, const Json& b) {
  std::vector<TableRow> rows = {{"results", "A", "B", "B / A"}};
  const auto of = [&](const std::string& name, const char* split, const std::string& key,
                      const auto& summary) {
    const auto value = [&](const Json& run) {
      return summary(run, finite(column(run.at(split), key)));
    };
    add_row(rows, name, value(a), value(b));
  };
  const auto last = [](const Json&, const std::vector<double>& v) {
    return v.empty() ? NAN : v.back();
  };
  const auto middle = [](const Json&, const std::vector<double>& v) {
    return v.empty() ? NAN : median(v);
  };
  of("updates", "train", "step", last);
  std::set<std::string> metrics;
  for (const Json* run : {&a, &b})
    for (const std::string& metric : metrics_in(run->at("test"))) metrics.insert(metric);
  of("train loss, last", "train", "loss", last);
  of("train loss, lowest", "train", "loss",
     [](const Json& run, const auto& v) { return best_of(run, "loss", v); });
  for (const std::string& metric : metrics) {
    of(cat("test ", metric, ", last"), "test", metric, last);
    of(cat("test ", metric, ", best"), "test", metric,
       [&](const Json& run, const auto& v) { return best_of(run, metric, v); });
  }
  of("ips, median", "train", "ips", middle);
  of("batch_cost, s, median", "train", "batch_cost", middle);
  of("reader_cost, s, median", "train", "reader_cost", middle);
  for (const auto& [key, name] : {std::pair("elapsed_s", "time of the run, s"),
                                  {"max_mem_allocated", "peak of tensors, bytes"}})
    add_row(rows, name, number_in(a.at("totals"), key), number_in(b.at("totals"), key));
  say_part(aligned(rows, "lrrr"));
  say(curve_text(a.at("train"), b.at("train")));
}

static int run_compare(CommandLine& line, const Arguments& args) {
  std::string first, second;
  line.add_option("a", first, "run folder").required();
  line.add_option("b", second, "another one").required();
  line.add_note(
      "Exit code: 0 whatever differs, 2 for what is not a run folder, 3 for a damaged file.");
  if (!line.read(args)) return 0;
  const Json a = read_run(first), b = read_run(second);
  say_wrapped("A: " + first, "   ");
  say_wrapped("B: " + second, "   ");
  say("");
  size_t apart = 0;
  for (const auto& [name, run] : {std::pair("A", &a), {"B", &b}})
    if (run->at("env").empty())
      say(cat("warning: ", name, " has no env.json, so its environment is unknown")), ++apart;
  if (!apart)
    for (const char* group : {"machine", "versions", "variables", "libraries"})
      apart += print(group, environment(a, group), environment(b, group));
  size_t options = 0;
  for (const char* group : {"data", "plan", "toggles"})
    options += print(group, plan(a, group), plan(b, group));
  if (a.at("totals").empty() || b.at("totals").empty())
    say("toggles that were on: unknown, a run has not ended");
  else
    print("toggles that were on", toggles_that_ran(a), toggles_that_ran(b), "off");
  say("");
  if (apart)
    say_wrapped("warning: the environments differ or are unknown, so a ratio may come from them",
                "");
  if (options > 1)
    say_wrapped("warning: more than one option differs, so a ratio may come from any of them", "");
  if (apart + options == 0)
    say_wrapped("The runs differ in nothing that they record, so the ratios show chance.", "");
  print_results(a, b);
  return 0;
}

static const AddVerb compare_verb({"compare",
                                   "prints how two runs differ: environment, plan, results",
                                   "trainer compare runs/lenet runs/lenet-2", run_compare});

}  // namespace bellows
