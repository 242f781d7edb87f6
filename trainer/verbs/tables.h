// The open collections as tables: for `trainer list`, the README and whoever asks what there is.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include "core/config/visitor.h"

namespace bellows {

using TableRow = std::vector<std::string>;

struct Table {
  const char* name;  // "toggles"
  TableRow columns;
  std::function<std::vector<TableRow>()> rows;  // ordered by their first column
  std::function<void(Visitor&, const std::string&)> visit = nullptr;  // an entry's options
};
const std::vector<Table>& tables();

// Columns side by side, two spaces between. `sides` has a letter for each: 'l' or 'r'; left where
// it has none. No space at the end of a line.
std::string aligned(const std::vector<TableRow>& rows, std::string_view sides = "");
std::string as_text(const Table& table);      // aligned columns
std::string as_markdown(const Table& table);  // a heading for each column

}  // namespace bellows
