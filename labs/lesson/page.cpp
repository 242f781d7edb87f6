// Reads the pages of lessons, and figures out of reports.
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include "core/base/check.h"
#include "labs/lesson/lesson.h"

namespace bellows {

// ---- pages

// By the names of their files.
static const std::map<std::string, std::string> kPages = {
#include <course_files.inc>
};

static std::string trimmed(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(" `"), text.size()));
  return text.erase(text.find_last_not_of(" `") + 1);
}

static Names split_cells(const std::string& row) {
  Names cells;
  std::istringstream line(row.substr(1));
  for (std::string cell; std::getline(line, cell, '|');) cells.push_back(trimmed(cell));
  return cells;
}

Names split_command(const std::string& command) {
  Names words(1);
  char quote = 0;
  for (const char c : command)
    if (quote ? c == quote : c == '\'' || c == '"')
      quote = quote ? 0 : c;
    else if (c == ' ' && !quote)
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

Lesson parse_lesson(const std::string& name, const std::string& page) {
  static const std::string kCommand = "    trainer ";
  static const Names kColumns = {"seen", "where", "source", "ours", "holds if"};
  Lesson lesson{name, page.substr(2, page.find('\n') - 2), page, {}};
  std::string paragraph;
  bool head = true;  // the next row is the head of a table
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const bool row = line.starts_with("|");
    if (row && !line.starts_with("|-")) {
      const Names cells = split_cells(line);
      INVARIANT(
          !lesson.steps.empty() && cells.size() == kColumns.size() && (!head || cells == kColumns),
          name, ": not a table of figures below a command: ", line);
      if (!head) lesson.steps.back().figures.push_back({cells[0], cells[1], cells[2], cells[4]});
      head = false;
    } else if (!row) {
      head = true;
    }
    if (line.starts_with(kCommand))
      lesson.steps.push_back({paragraph, split_command(line.substr(kCommand.size())), {}});
    else if (!line.empty())
      paragraph = line;
  }
  return lesson;
}

const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> all = [] {
    std::vector<Lesson> read;
    for (const auto& [file, page] : kPages)
      read.push_back(parse_lesson(file.substr(0, file.rfind('.')), page));
    return read;
  }();
  return all;
}

// ---- figures

static std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

static std::optional<Json> find_in(const Json& report, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  if (!report.contains(at) || report.at(at).is_null()) return {};
  return report.at(at);
}

static std::optional<std::string> value_at(const std::string& where, const Json& report) {
  const size_t colon = where.find(" : ");
  const auto first = find_in(report, where.substr(0, colon));
  if (!first) return {};
  if (colon == where.npos) {
    if (first->is_string()) return first->get<std::string>();
    return first->is_number_float() ? fmt::format("{:.4g}", first->get<double>()) : first->dump();
  }
  const auto second = find_in(report, where.substr(colon + 3));
  if (!second || !first->is_number() || !second->is_number()) return {};
  return fmt::format("{:.4g}", first->get<double>() / second->get<double>());
}

static bool holds(const std::string& value, const std::string& condition) {
  if (condition.starts_with("= ")) return value == condition.substr(2);
  const auto now = number(value);
  if (!now) return false;
  const auto bound = [&](size_t at, size_t size = std::string::npos) {
    const auto found = number(condition.substr(at, size));
    INVARIANT(found, "a lesson holds if: '", condition, "'");
    return *found;
  };
  if (condition.starts_with("at least ")) return *now >= bound(9);
  if (condition.starts_with("at most ")) return *now <= bound(8);
  const size_t to = condition.find(" to ");
  return *now >= bound(0, to) && *now <= bound(to + 4);
}

SeenFigure look_at(const Figure& figure, const CommandOutput& shown) {
  if (!figure.where.starts_with("/")) {
    const bool printed = shown.text.find(figure.where) != std::string::npos;
    return {printed ? "printed" : "missing", printed};
  }
  const auto value = value_at(figure.where, shown.report);
  return value ? SeenFigure{*value, holds(*value, figure.holds_if)} : SeenFigure{"missing"};
}

}  // namespace bellows
