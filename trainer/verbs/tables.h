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
  std::function<std::vector<TableRow>()> rows;                        // sorted by the first column
  std::function<void(Visitor&, const std::string&)> visit = nullptr;  // options of an entry
  bool has_cards = false;           // `trainer explain` prints more of an entry than its row
  std::string (*text)() = nullptr;  // for `trainer list`; null: the rows in columns
};
const std::vector<Table>& tables();  // with the added ones at the end

// Adds a list from a folder above trainer/.
struct AddTable {
  explicit AddTable(const Table& table, const char* file = __builtin_FILE());
};

// Returns the rows in aligned columns, two spaces apart. `sides`: 'l' or 'r' per column; missing
// letters mean left. Lines have no trailing spaces.
std::string aligned(const std::vector<TableRow>& rows, std::string_view sides = "");
// The same if it fits into 80 columns. Else each row but that of the heads is a paragraph: its
// first cell, then a line for each other one, after its head.
std::string fitted_table(const std::vector<TableRow>& rows, const TableRow& heads,
                         std::string_view sides = "");
// Breaks text after spaces, or in a word that is longer than a line, into lines of at most 80
// columns. Lines but the first are indented.
std::string wrapped(std::string text, const std::string& indent);

}  // namespace bellows
