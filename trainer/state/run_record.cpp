#include "trainer/state/run_record.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/utf8.h"
#include "core/config/config.h"
#include "core/config/yaml.h"
#include "plan/toggle.h"
#include "trainer/session/evaluate.h"

namespace bellows {

constexpr int64_t kLargest = int64_t{1} << 30;

static Json read_object(const Path& path) {
  Json object = read_json(path, Exit::data);
  if (!object.is_object())
    fail(Exit::data, path.string(), ": not a JSON object; the file is damaged");
  return object;
}

static bool is_file(const Path& path) { return kind_of(path, Exit::data) == Kind::file; }

static Json read_env(const Path& folder) {
  return is_file(folder / "env.json") ? read_object(folder / "env.json") : Json::object();
}

void restore_origins(Values& values, const Path& folder) {
  const Json origins = read_env(folder).value("origins", Json::object());
  for (auto& [key, value] : values)
    if (const auto found = origins.find(key); found != origins.end() && found->is_string())
      value.origin = printable(found->get<std::string>());
}

static void add_plan(Json& run, const Path& path) {
  run["plan_text"] = read_file(path, kYamlBytes, Exit::data);
  try {
    Values values = parse_yaml(run["plan_text"], path.string());
    restore_origins(values, path.parent_path());
    for (const auto& [key, value] : values) run["plan"].push_back({key, value.text, value.origin});
  } catch (const Error& error) {
    fail(Exit::data, error.what());
  }
  run["env"].erase("origins");
}

// Returns rows as columns, with null where a row has no such value. Most values must exist, so that
// the columns stay in proportion to the file.
static Json to_columns(const std::vector<Json>& rows, size_t file_bytes, const Path& path) {
  constexpr size_t kMostColumns = 1000, kMostMissing = size_t{1} << 20;
  Json columns = Json::object();
  for (const Json& row : rows)
    for (const auto& [name, value] : row.items()) {
      if (name != "split") columns.emplace(name, Json::array());
      if (columns.size() > kMostColumns || rows.size() * columns.size() > kMostMissing + file_bytes)
        fail(Exit::data, path.string(), ": too many columns; the file is damaged");
    }
  for (auto& [name, column] : columns.get_ref<Json::object_t&>())
    for (const Json& row : rows) column.push_back(row.value(name, Json()));
  return columns;
}

static void add_rows(Json& run, const Path& path) {
  const std::string text = is_file(path) ? read_file(path, kLargest, Exit::data) : "";
  std::istringstream lines(text);
  std::map<std::string, std::vector<Json>> rows;  // rows by split, as JSON
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::string why = "it has no step";
    const Json row = parse_json(line, &why);
    const std::string split = row.is_object() ? row.value("split", Json("")).dump() : "";
    const bool whole = row.is_object() && row.value("step", Json()).is_number();
    // The last line is incomplete if the run is still writing it.
    if (!whole && lines.eof()) break;
    if (!whole)
      fail(Exit::data, path.string(), ":", number, ": not a row: ", why, "; the file is damaged");
    if (split == "\"run\"") run["totals"] = row;
    rows[split].push_back(row);
  }
  run["train"] = to_columns(rows["\"train\""], text.size(), path);
  run["test"] = to_columns(rows["\"test\""], text.size(), path);
}

static void add_directions(Json& run, const Path& file) {
  Plan plan;
  try {
    plan = make_config(read_sources(file.string(), {})).plan;
  } catch (const Error&) {  // a plan of another version: use the metrics that all runs have
  }
  for (const std::string& metric : metrics_in(run["test"]))
    if (higher_is_better(plan, metric)) run["higher_is_better"].push_back(metric);
}

static void add_end(Json& run, const Path& path) {
  if (run["totals"].empty() || !is_file(path)) {
    for (const Json& option : run["plan"])
      if (const std::string key = option[0], value = option[1]; key.starts_with("toggles."))
        if (const Toggle* const toggle = find_toggle(key.substr(8));
            toggle && value != toggle->off())
          run["toggles"].push_back({{"name", toggle->name}, {"value", value}});
    return;
  }
  const Json end = read_object(path);
  for (const char* key : {"summary", "toggles"})
    if (const auto found = end.find(key); found != end.end() && found->is_array())
      run[key] = *found;
  const auto has_text = [](const Json& toggle, const char* key) {
    return toggle.is_object() && toggle.value(key, Json()).is_string();
  };
  bool whole = true;
  for (const Json& line : run["summary"]) whole &= line.is_string();
  for (const Json& each : run["toggles"])
    whole &= has_text(each, "name") && has_text(each, "value");
  if (!whole)
    fail(Exit::data, path.string(),
         ": a summary or a toggle without its text; the file is damaged");
}

Json read_run(const Path& folder) {
  const Path plan = folder / "plan.yaml";
  CHECK(kind_of(plan, Exit::usage) == Kind::file, folder.string(),
        ": not a run folder, it has no plan.yaml; name one such as runs/lenet");
  Json run = {{"kind", "run"},
              {"folder", folder.string()},
              {"plan", Json::array()},
              {"env", read_env(folder)},
              {"totals", Json::object()},
              {"summary", Json::array()},
              {"toggles", Json::array()},
              {"higher_is_better", Json::array()}};
  add_plan(run, plan);
  add_rows(run, folder / "metrics.jsonl");
  add_directions(run, plan);
  add_end(run, folder / "end.json");
  return run;
}

Values options_in(const Json& run) {
  Values options;
  for (const Json& option : run.at("plan"))
    options[option[0].get<std::string>()].text = option[1].get<std::string>();
  return options;
}

std::string plain(const Json& value) {
  if (value.is_string()) return value;
  if (!value.is_array()) return value.dump();
  Names items;
  for (const Json& each : value) items.push_back(plain(each));
  return joined(items, "none");
}

std::vector<double> column(const Json& rows, const std::string& name) {
  const auto found = rows.find(name), steps = rows.find("step");
  if (found == rows.end()) return std::vector<double>(steps == rows.end() ? 0 : steps->size(), NAN);
  std::vector<double> values;
  for (const Json& value : *found) values.push_back(value.is_number() ? value.get<double>() : NAN);
  return values;
}

std::vector<double> finite(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return values;
}

double number_in(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : NAN;
}

Names metrics_in(const Json& test) {
  Names names;
  for (const auto& [name, values] : test.items())
    if (name != "ts" && name != "step" && name != "epoch") names.push_back(name);
  return names;
}

double best_of(const Json& run, const std::string& metric, const std::vector<double>& values) {
  if (values.empty()) return NAN;
  const auto [least, most] = std::ranges::minmax(values);
  return std::ranges::count(run.at("higher_is_better"), Json(metric)) ? most : least;
}

}  // namespace bellows
