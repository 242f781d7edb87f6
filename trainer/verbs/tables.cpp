#include "trainer/verbs/tables.h"
#include <fmt/format.h>
#include <algorithm>
#include <set>
#include "core/base/output.h"
#include "dist/groups/process_group.h"
#include "ops/base/op.h"
#include "optim/schedule.h"
#include "plan/toggle.h"
#include "trainer/verbs/topics.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// Returns the rows of all entries, sorted. Variants of an op and lengths of a fusion share a row.
static std::vector<TableRow> rows_of(const auto& entries, const auto& row_of) {
  std::set<TableRow> rows;
  for (const auto& entry : entries) rows.insert(row_of(entry));
  return {rows.begin(), rows.end()};
}

template <class Signature> static Table make_table(const char* name, const char* one) {
  const auto rows = [] {
    return rows_of(entries<Signature>(), [](const auto& named) {
      return TableRow{named.first, named.second.help};
    });
  };
  const auto visit = [](Visitor& v, const std::string& entry) {
    Choice<Signature>(entry).visit_options(v);
  };
  return {name, one, {"name", "what"}, rows, false, nullptr, visit};
}

static TableRow toggle_row(const Toggle& t) {
  const std::string same =
      t.same == Same::close ? cat(name_of(t.same), " ", t.tolerance) : name_of(t.same);
  return {t.name, t.key_point, t.sources, same, t.footprint, t.default_value, t.fast};
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

static TableRow op_row(const OpSpec& op) {
  return {cat(op.name, *op.variant ? ", " : "", op.variant), op.math};
}

static TableRow verb_row(const std::pair<const std::string, Verb>& verb) {
  return {verb.first, verb.second.help, verb.second.example};
}

// A fusion's name without "fuse.".
static TableRow rewrite_row(const Rewrite& rewrite) {
  const std::string name = rewrite.name;
  return {name.substr(name.find('.') + 1), rewrite.help};
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
       [] { return rows_of(toggles(), toggle_row); },
       true,
       toggle_text},
      {"verbs", "verb", {"verb", "what", "example"}, [] { return rows_of(verbs(), verb_row); }},
      {"benches",
       "benchmark",
       {"bench", "what", "example"},
       [] { return rows_of(benches(), verb_row); }},
      make_table<MakeModel>("models", "model"),
      make_table<MakeLayer>("layers", "layer"),
      make_table<LossFunction>("losses", "loss"),
      make_table<MakeMetric>("metrics", "metric"),
      {"rewrites", "rewrite", {"name", "what"}, [] { return rows_of(rewrites(), rewrite_row); }},
      make_table<MakeDataset>("datasets", "data set"),
      make_table<MakeTransform>("transforms", "transform"),
      make_table<UpdateRule()>("optimizers", "optimizer"),
      make_table<MakeCurve>("schedules", "schedule"),
      make_table<MakeGroup>("backends", "backend"),
      {"ops", "op", {"op", "maths"}, [] { return rows_of(op_specs(), op_row); }, true},
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
