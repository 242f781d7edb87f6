// The registries as tables, for `trainer list`, `trainer explain` and docs/reference.md.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bellows {

class Visitor;

using TableRow = std::vector<std::string>;

struct Table {
  const char* name;  // "toggles"
  const char* one;   // "toggle"
  TableRow columns;
  std::function<std::vector<TableRow>()> rows;  // sorted by the first column
  bool has_cards = false;           // `trainer explain` prints more of an entry than its row
  std::string (*text)() = nullptr;  // text for `trainer list`; null: the rows in columns
  std::function<void(Visitor&, const std::string&)> visit = nullptr;  // options of an entry
};
const std::vector<Table>& tables();  // includes those of AddTable, at the end

// Adds a list from a folder above trainer/.
struct AddTable {
  explicit AddTable(const Table& table, const char* file = __builtin_FILE());
};

// Returns the rows in aligned columns, two spaces apart. `sides`: 'l' or 'r' per column; missing
// letters mean left. Lines have no trailing spaces.
std::string aligned(const std::vector<TableRow>& rows, std::string_view sides = "");
// As aligned(), if that fits into 80 columns. Else each row below the heads becomes a paragraph:
// its first cell, then a line with head and text for each other cell.
std::string fitted_table(const std::vector<TableRow>& rows, const TableRow& heads,
                         std::string_view sides = "");
// Breaks text after spaces, or within a word that is longer than a line, into lines of at most 80
// columns. All lines except the first are indented.
std::string wrapped(std::string text, const std::string& indent);
void say_wrapped(const std::string& text, const std::string& indent = "  ");  // and prints them

}  // namespace bellows
