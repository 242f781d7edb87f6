#include "trainer/verbs/tables.h"
#include <fmt/format.h>
#include <algorithm>
#include "core/base/output.h"
#include "dist/groups/process_group.h"
#include "ops/base/op.h"
#include "optim/schedule.h"
#include "plan/toggle.h"
#include "trainer/verbs/topics.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

template <class Signature> static std::vector<TableRow> list_rows() {
  std::vector<TableRow> rows;
  for (const auto& [name, entry] : entries<Signature>()) rows.push_back({name, entry.help});
  return rows;
}

template <class Signature> static Table make_table(const char* name, const char* one) {
  const auto visit = [](Visitor& v, const std::string& entry) {
    Choice<Signature>(entry).visit_options(v);
  };
  return {name, one, {"name", "what"}, list_rows<Signature>, false, nullptr, visit};
}

// Sorts and removes duplicates: variants of an op and lengths of a fusion share a row.
static std::vector<TableRow> sorted(std::vector<TableRow> rows) {
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

static std::vector<TableRow> toggle_rows() {
  std::vector<TableRow> rows;
  for (const Toggle& t : toggles()) {
    const std::string same =
        t.same == Same::close ? cat(name_of(t.same), " ", t.tolerance) : name_of(t.same);
    rows.push_back({t.name, t.key_point, t.sources, same, t.footprint, t.default_value, t.fast});
  }
  return sorted(rows);
}

// Lists the toggles of each key point: name, default, what it does. A number before the name refers
// to the reason why the toggle has no effect on this machine.
static std::string toggle_text() {
  std::map<std::string, std::vector<TableRow>> groups;
  Names reasons;
  for (const Toggle& t : toggles()) {
    const std::string why = no_effect(t);
    const auto at = std::ranges::find(reasons, why) - reasons.begin();
    if (!why.empty() && at == std::ssize(reasons)) reasons.push_back(why);
    const std::string mark = why.empty() ? " " : cat(at + 1);
    groups[t.key_point].push_back({cat(mark, " ", t.name), t.default_value, t.what});
  }
  std::string text;
  for (auto& [key_point, rows] : groups) {
    std::ranges::sort(rows, {}, [](const TableRow& row) { return row[0].substr(2); });
    rows.insert(rows.begin(), {fmt::format("{:25}", key_point), "default  "});
    text += aligned(rows) + "\n";
  }
  for (size_t i = 0; i < reasons.size(); ++i) text += cat(i + 1, " ", reasons[i], "\n");
  return text;
}

static std::vector<TableRow> topic_rows(bool counters) {
  std::vector<TableRow> rows;
  for (const Topic& topic : topics())
    if (topic.counter == counters)
      rows.push_back({topic.name, topic.text.substr(0, topic.text.find(". "))});
  return rows;
}

static std::vector<TableRow> op_rows() {
  std::vector<TableRow> rows;
  for (const OpSpec& op : op_specs())
    rows.push_back({cat(op.name, *op.variant ? ", " : "", op.variant), op.math});
  return sorted(rows);
}

static std::vector<TableRow> verb_rows(const std::map<std::string, Verb>& verbs) {
  std::vector<TableRow> rows;
  for (const auto& [name, verb] : verbs) rows.push_back({name, verb.help, verb.example});
  return rows;
}

// A fusion's name without "fuse.".
static std::vector<TableRow> rewrite_rows() {
  std::vector<TableRow> rows;
  for (const Rewrite& rewrite : rewrites()) {
    const std::string name = rewrite.name;
    rows.push_back({name.substr(name.find('.') + 1), rewrite.help});
  }
  return sorted(rows);
}

static std::vector<Table>& added_tables() {
  static std::vector<Table> added;
  return added;
}

AddTable::AddTable(const Table& table, const char* file) {
  note_registration(file);
  added_tables().push_back(table);
}

static std::vector<Table> all_tables() {
  std::vector<Table> all = {
      {"toggles",
       "toggle",
       {"toggle", "key point", "sources", "same loss", "footprint", "default", "fast"},
       toggle_rows,
       true,
       toggle_text},
      {"verbs", "verb", {"verb", "what", "example"}, [] { return verb_rows(verbs()); }},
      {"benches", "benchmark", {"bench", "what", "example"}, [] { return verb_rows(benches()); }},
      make_table<MakeModel>("models", "model"),
      make_table<MakeLayer>("layers", "layer"),
      make_table<LossFunction>("losses", "loss"),
      make_table<MakeMetric>("metrics", "metric"),
      {"rewrites", "rewrite", {"name", "what"}, rewrite_rows},
      make_table<MakeDataset>("datasets", "data set"),
      make_table<MakeTransform>("transforms", "transform"),
      make_table<UpdateRule()>("optimizers", "optimizer"),
      make_table<MakeCurve>("schedules", "schedule"),
      make_table<MakeGroup>("backends", "backend"),
      {"ops", "op", {"op", "maths"}, op_rows, true},
      {"topics", "topic", {"topic", "what"}, [] { return topic_rows(false); }, true},
      {"counters", "counter", {"counter", "counts"}, [] { return topic_rows(true); }, true},
  };
  all.insert(all.end(), added_tables().begin(), added_tables().end());
  return all;
}

const std::vector<Table>& tables() {
  static const std::vector<Table> all = all_tables();
  return all;
}

std::string aligned(const std::vector<TableRow>& rows, std::string_view sides) {
  std::vector<size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      const bool right = c < sides.size() && sides[c] == 'r';
      line += cat(c ? "  " : "", right ? space + row[c] : row[c] + space);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string fitted_table(const std::vector<TableRow>& rows, const TableRow& heads,
                         std::string_view sides) {
  std::string text = aligned(rows, sides);
  std::istringstream lines(text);
  bool fits = true;
  for (std::string line; std::getline(lines, line);) fits &= line.size() <= 80;
  if (fits) return text;
  text.clear();
  for (const TableRow& row : rows) {
    if (row == heads) continue;
    const std::string indent(row[0].find_first_not_of(' ') + 2, ' ');
    text += wrapped(row[0], indent) + "\n";
    for (size_t c = 1; c < row.size(); ++c)
      text += wrapped(cat(indent, heads[c], ": ", row[c]), indent + "   ") + "\n";
  }
  return text;
}

std::string wrapped(std::string text, const std::string& indent) {
  constexpr size_t kColumns = 80;
  std::string lines;
  while (text.size() > kColumns) {
    size_t end = text.rfind(' ', kColumns);
    if (end == text.npos || end <= indent.size() + 8) end = kColumns;
    lines += text.substr(0, end) + "\n";
    text.replace(0, end + (text[end] == ' '), indent);
  }
  return lines + text;
}

void say_wrapped(const std::string& text, const std::string& indent) {
  say_part(wrapped(text, indent) + "\n");
}

}  // namespace bellows
