// Tables of text, comma-separated, and their rows as numbers.
#pragma once
#include <functional>
#include "core/base/file.h"
#include "data/images/sample.h"

namespace bellows {

struct CsvTable {
  std::string path;  // printable()
  std::vector<std::string> names;
  struct Row {
    int64_t line;
    std::vector<std::string> cells;  // as many as names
  };
  std::vector<Row> rows;

  // Index of a column. Throws Error(Exit::data) that lists the columns.
  size_t index_of(const std::string& name) const;
};

// Reads CSV (RFC 4180) whose first line has the names of the columns. Throws Error(Exit::data) with
// path and line: for a row with more or fewer cells, an empty cell, a cell of more than 1 MiB,
// bytes that are not UTF-8, a byte order mark or line ends of Windows.
CsvTable read_table(const Path& path);
using NextPiece = std::function<std::string()>;  // "" at the end
CsvTable parse_table(const std::string& name, const NextPiece& next);

// Describes these columns by the rows for which takes(i) holds: numbers if all cells are.
std::vector<Column> describe(const CsvTable& table, const std::vector<std::string>& names,
                             const std::function<bool(int64_t)>& takes);

// Appends the numbers of the columns of a row to `to`. Throws Error(Exit::data) with path and line
// for a cell that is no finite number, or a category that is not known.
void encode_row(const CsvTable& table, const CsvTable::Row& row, const std::vector<Column>& columns,
                std::vector<float>& to);
// Returns the number in a cell; throws the same.
double number_in(const CsvTable& table, const CsvTable::Row& row, size_t column);

}  // namespace bellows
