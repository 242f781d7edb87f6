#include "trainer/verbs/tables.h"
#include <algorithm>
#include "dist/groups/process_group.h"
#include "ops/base/op.h"
#include "optim/schedule.h"
#include "plan/toggle.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

template <class Signature> static std::vector<TableRow> rows_of() {
  std::vector<TableRow> rows;
  for (const auto& [name, entry] : entries<Signature>()) rows.push_back({name, entry.help});
  return rows;
}

template <class Signature> static Table table_of(const char* name, const char* one) {
  return {
      name, one, {"name", "what"}, rows_of<Signature>, [](Visitor& v, const std::string& entry) {
        Choice<Signature>(entry).visit_options(v);
      }};
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

const std::vector<Table>& tables() {
  static const std::vector<Table> all = {
      {"toggles",
       "toggle",
       {"toggle", "key point", "sources", "same loss", "footprint", "default", "fast"},
       toggle_rows},
      {"verbs", "verb", {"verb", "what", "example"}, [] { return verb_rows(verbs()); }},
      {"benches", "benchmark", {"bench", "what", "example"}, [] { return verb_rows(benches()); }},
      table_of<MakeModel>("models", "model"),
      table_of<MakeLayer>("layers", "layer"),
      table_of<LossFunction>("losses", "loss"),
      table_of<MakeMetric>("metrics", "metric"),
      {"rewrites", "rewrite", {"name", "what"}, rewrite_rows},
      table_of<MakeDataset>("datasets", "data set"),
      table_of<MakeTransform>("transforms", "transform"),
      table_of<UpdateRule()>("optimizers", "optimizer"),
      table_of<MakeCurve>("schedules", "schedule"),
      table_of<MakeGroup>("backends", "backend"),
      {"ops", "op", {"op", "maths"}, op_rows},
  };
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

std::string as_text(const Table& table) {
  std::vector<TableRow> rows = table.rows();
  rows.insert(rows.begin(), table.columns);
  return aligned(rows);
}

static std::string markdown_row(const TableRow& row) {
  std::string line = "|";
  for (std::string cell : row) {
    for (size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2)
      cell.insert(at, 1, '\\');
    line.append(" ").append(cell).append(" |");
  }
  return line + "\n";
}

std::string as_markdown(const Table& table) {
  std::string text = markdown_row(table.columns);
  text += markdown_row(TableRow(table.columns.size(), "---"));
  for (const TableRow& row : table.rows()) text += markdown_row(row);
  return text;
}

}  // namespace bellows
