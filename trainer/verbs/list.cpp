// trainer list: prints the registries.
#include <algorithm>
#include <sstream>
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
  size_t width = 0;
  for (const TableRow& row : rows) width = std::max(width, row[0].size() + 2);
  std::istringstream lines(aligned(rows));
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += wrapped(line, std::string(width, ' ')) + "\n";
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
  const auto print = [&](const Table& table) {
    say_part(markdown ? as_markdown(table) : as_text(table));
  };
  if (!name.empty()) {
    const auto at = std::ranges::find(names, name);
    CHECK(at != names.end(), "unknown list '", name, "', the nearest one is '",
          nearest(name, names), "'; trainer list  prints all");
    print(tables()[at - names.begin()]);
    return 0;
  }
  for (const Table& table : tables()) {
    say_part(cat(markdown ? "### " : "", table.name, markdown ? "\n\n" : ":\n"));
    print(table);
    say("");
  }
  return 0;
}

static const AddVerb list_verb({"list",
                                "lists the toggles, models, layers, data sets, ops and so on",
                                "trainer list toggles --markdown", run_list, "learn"});

}  // namespace bellows
