// trainer list: prints the registries.
#include <fmt/format.h>
#include <algorithm>
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/hint.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static std::string as_text(const Table& table) {
  if (table.text) return table.text();
  std::vector<TableRow> rows = table.rows();
  rows.insert(rows.begin(), table.columns);
  if (table.columns.size() != 2) return aligned(rows);
  constexpr size_t kWidest = 30;  // a longer name has a line of its own
  size_t width = 0;
  for (const TableRow& row : rows)
    if (row[0].size() <= kWidest) width = std::max(width, row[0].size());
  std::string text;
  for (const TableRow& row : rows) {
    const bool alone = row[0].size() > width;
    if (alone) text += row[0] + "\n";
    text += wrapped(fmt::format("{:{}}{}", alone ? "" : row[0], width + 2, row[1]),
                    std::string(width + 2, ' ')) +
            "\n";
  }
  return text;
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

static std::string as_markdown(const Table& table) {
  std::string text = markdown_row(table.columns);
  text += markdown_row(TableRow(table.columns.size(), "---"));
  for (const TableRow& row : table.rows()) text += markdown_row(row);
  return text;
}

static int run_list(CommandLine& line, const Arguments& args) {
  std::string name;
  bool markdown = false;
  Names names;
  for (const Table& table : tables()) names.emplace_back(table.name);
  line.add_option("what", name, "one of: " + joined(names) + " (default: all of them)");
  line.add_flag("--markdown", markdown, "print Markdown tables");
  if (!line.read(args)) return 0;
  CHECK(name.empty() || std::ranges::count(names, name), "unknown list '", name,
        "', the nearest one is '", nearest(name, names), "'; trainer list  prints all");
  for (const Table& table : tables()) {
    const std::string text = markdown ? as_markdown(table) : as_text(table);
    if (name.empty())
      say_part(cat(markdown ? "### " : "", table.name, markdown ? "\n\n" : ":\n", text, "\n"));
    else if (name == table.name)
      say_part(text);
  }
  return 0;
}

static const AddVerb list_verb({"list",
                                "lists the toggles, models, layers, data sets, ops and so on",
                                "trainer list toggles --markdown", run_list, "learn"});

}  // namespace bellows
