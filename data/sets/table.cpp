#include "data/sets/table.h"
#include <csv.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include "core/base/words.h"

namespace bellows {

namespace {

template <class... Args>
[[noreturn]] void refuse(const CsvTable& table, int64_t line, Args&&... why) {
  fail(Exit::data, table.path, ", line ", line, ": ", why...);
}

// Collects the cells that the parser reports. The parser is C, so an error waits until it returns.
class Reader {
 public:
  explicit Reader(CsvTable& table) : table_(table) {}
  static void cell(void* bytes, size_t size, void* reader) {
    static_cast<Reader*>(reader)->take({static_cast<const char*>(bytes), size});
  }
  static void row(int, void* reader) { static_cast<Reader*>(reader)->end_row(); }
  void check() const {
    if (!error_.empty()) fail(Exit::data, error_);
  }
  int64_t line() const { return line_; }

 private:
  void take(std::string_view cell) {
    row_.cells.emplace_back(cell);
    further_lines_ += std::ranges::count(cell, '\n');
  }
  void end_row() {
    row_.line = line_;
    line_ += 1 + std::exchange(further_lines_, 0);
    CsvTable::Row row = std::exchange(row_, {});
    if (!error_.empty()) return;
    try {
      add(std::move(row));
    } catch (const Error& error) {
      error_ = error.what();
    }
  }
  void add(CsvTable::Row row) {
    for (const std::string& cell : row.cells) {
      if (cell.empty()) refuse(table_, row.line, "an empty cell");
      if (find_non_text(cell) != cell.npos) refuse(table_, row.line, "a cell is not UTF-8 text");
    }
    if (table_.names.empty()) {
      table_.names = std::move(row.cells);
      return;
    }
    if (row.cells.size() != table_.names.size())
      refuse(table_, row.line, count_of(std::ssize(row.cells), "cell"), ", the first line has ",
             table_.names.size());
    table_.rows.push_back(std::move(row));
  }

  CsvTable& table_;
  CsvTable::Row row_;
  int64_t line_ = 1, further_lines_ = 0;
  std::string error_;
};

// Refuses what libcsv would take silently.
void check_bytes(const CsvTable& table, std::string_view piece, bool first, int64_t line) {
  if (first && piece.starts_with("\xef\xbb\xbf"))
    refuse(table, 1, "a byte order mark; save the file as UTF-8 without one");
  if (const size_t at = piece.find('\r'); at != piece.npos)
    refuse(table, line + std::ranges::count(piece.substr(0, at), '\n'),
           "a carriage return; write line ends as \\n");
}

}  // namespace

CsvTable parse_table(const std::string& name, const NextPiece& next) {
  constexpr int64_t kMostInCell = 1 << 20;
  CsvTable table{.path = printable(name), .names = {}, .rows = {}};
  csv_parser parser;
  CHECK(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0, "libcsv cannot start");
  const std::unique_ptr<csv_parser, decltype(&csv_free)> owner(&parser, csv_free);
  Reader reader(table);
  bool first = true;
  for (std::string piece = next(); !piece.empty(); piece = next()) {
    check_bytes(table, piece, std::exchange(first, false), reader.line());
    const size_t parsed =
        csv_parse(&parser, piece.data(), piece.size(), Reader::cell, Reader::row, &reader);
    reader.check();
    if (parsed < piece.size())
      refuse(table, reader.line(), csv_strerror(csv_error(&parser)), "; is a quote missing?");
    if (int64_t(parser.entry_pos) > kMostInCell)
      refuse(table, reader.line(), "a cell of more than 1 MiB; is a quote missing?");
  }
  if (csv_fini(&parser, Reader::cell, Reader::row, &reader) != 0)
    refuse(table, reader.line(), "a quote is not closed");
  reader.check();
  if (table.rows.empty()) fail(Exit::data, table.path, ": no rows below the names of the columns");
  return table;
}

CsvTable read_table(const Path& path) {
  constexpr int64_t kPiece = 1 << 16;
  const InputFile file(path, Exit::data);
  int64_t at = 0;
  return parse_table(path.native(), [&] {
    std::string piece(std::min(kPiece, file.size() - at), 0);
    file.read(at, std::as_writable_bytes(std::span(piece)));
    at += std::ssize(piece);
    return piece;
  });
}

size_t CsvTable::index_of(const std::string& name) const {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    fail(Exit::data, path, ": no column ", printable(name), "; it has ", printable(joined(names)));
  return found - names.begin();
}

static std::optional<double> number(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = error == std::errc() && end == cell.data() + cell.size();
  return whole ? std::optional(value) : std::nullopt;
}

double number_in(const CsvTable& table, const CsvTable::Row& row, size_t column) {
  const std::string& cell = row.cells[column];
  const std::optional<double> value = number(cell);
  if (!value || !std::isfinite(*value) || std::abs(*value) > 1e30)
    refuse(table, row.line, "column ", printable(table.names[column]), ": ", printable(cell),
           " is not a finite number");
  return *value;
}

static Column describe_column(const CsvTable& table, size_t at,
                              const std::function<bool(int64_t)>& takes) {
  Column column{.name = table.names[at]};
  const bool numbers = std::ranges::all_of(
      table.rows, [&](const CsvTable::Row& row) { return number(row.cells[at]).has_value(); });
  std::set<std::string> categories;
  double n = 0, sum = 0, squares = 0;
  for (int64_t i = 0; i < std::ssize(table.rows); ++i) {
    if (!takes(i)) continue;
    const double value = numbers ? number_in(table, table.rows[i], at) : 0;
    if (!numbers) categories.insert(table.rows[i].cells[at]);
    ++n, sum += value, squares += value * value;
  }
  column.categories.assign(categories.begin(), categories.end());
  column.mean = sum / std::max(1.0, n);
  const double variance = squares / std::max(1.0, n) - column.mean * column.mean;
  column.std = variance > 1e-12 * squares / std::max(1.0, n) ? std::sqrt(variance) : 1;
  return column;
}

std::vector<Column> describe(const CsvTable& table, const std::vector<std::string>& names,
                             const std::function<bool(int64_t)>& takes) {
  std::vector<Column> columns;
  for (const std::string& name : names)
    columns.push_back(describe_column(table, table.index_of(name), takes));
  return columns;
}

void encode_row(const CsvTable& table, const CsvTable::Row& row, const std::vector<Column>& columns,
                std::vector<float>& to) {
  for (const Column& column : columns) {
    const size_t at = table.index_of(column.name);
    if (column.categories.empty()) {
      to.push_back(float((number_in(table, row, at) - column.mean) / column.std));
      continue;
    }
    const auto found = std::ranges::find(column.categories, row.cells[at]);
    if (found == column.categories.end())
      refuse(table, row.line, "column ", printable(column.name), ": the category ",
             printable(row.cells[at]), " is not among those of the training rows");
    for (auto c = column.categories.begin(); c != column.categories.end(); ++c)
      to.push_back(c == found);
  }
}

}  // namespace bellows
