// csv: the rows of a table. Numbers are standardized by the training rows; other columns are
// categories, with one input for each.
#include <csv.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include "core/base/file.h"
#include "core/base/words.h"
#include "data/sets/arrays.h"
#include "data/sets/held_out.h"

namespace bellows {

namespace {

struct CsvRow {
  int64_t line;
  std::vector<std::string> cells;  // one for each name
};
// A table of text.
struct CsvTable {
  std::string path;  // printable()
  std::vector<std::string> names;
  std::vector<CsvRow> rows;

  // Returns the index of a column. Throws Error(Exit::data) that lists the columns.
  size_t index_of(const std::string& name) const {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      fail(Exit::data, path, ": no column ", printable(name), "; it has ",
           printable(joined(names)));
    return found - names.begin();
  }
};

template <class... Args>
[[noreturn]] void refuse(const CsvTable& table, int64_t line, Args&&... why) {
  fail(Exit::data, table.path, ", line ", line, ": ", why...);
}

// Rows as libcsv reports them, not checked: an error could not leave its C functions. The last one
// is not complete.
using ParsedRows = std::vector<CsvRow>;

void add_cell(void* bytes, size_t size, void* rows) {
  static_cast<ParsedRows*>(rows)->back().cells.emplace_back(static_cast<const char*>(bytes), size);
}
void end_row(int, void* rows) {
  auto& all = *static_cast<ParsedRows*>(rows);
  int64_t next = all.back().line + 1;
  for (const std::string& cell : all.back().cells) next += std::ranges::count(cell, '\n');
  all.push_back({.line = next, .cells = {}});
}

void check_cell_size(const CsvTable& table, int64_t line, size_t bytes) {
  constexpr size_t kMostInCell = 1 << 20;
  if (bytes > kMostInCell) refuse(table, line, "a cell of more than 1 MiB; is a quote missing?");
}

// Checks the complete rows and moves them into the table. The first one of a table has the names.
void add_rows(CsvTable& table, ParsedRows& rows) {
  for (CsvRow& row : std::span(rows).first(rows.size() - 1)) {
    for (const std::string& cell : row.cells) {
      if (cell.empty()) refuse(table, row.line, "an empty cell");
      check_cell_size(table, row.line, cell.size());
      if (find_non_text(cell) != cell.npos) refuse(table, row.line, "a cell is not UTF-8 text");
    }
    if (table.names.empty()) {
      table.names = std::move(row.cells);
      continue;
    }
    if (row.cells.size() != table.names.size())
      refuse(table, row.line, count_of(std::ssize(row.cells), "cell"), ", the first line has ",
             table.names.size());
    table.rows.push_back(std::move(row));
  }
  rows.erase(rows.begin(), rows.end() - 1);
}

// Parses CSV (RFC 4180) whose first line has the names of the columns. Throws Error(Exit::data)
// with path and line: for a row with more or fewer cells, an empty cell, a cell of more than 1 MiB,
// bytes that are not UTF-8, a byte order mark or line ends of Windows.
CsvTable parse_table(const std::string& name, std::string_view text) {
  CsvTable table{.path = printable(name), .names = {}, .rows = {}};
  if (text.starts_with("\xef\xbb\xbf"))
    refuse(table, 1, "a byte order mark; save the file as UTF-8 without one");
  if (const size_t at = text.find('\r'); at != text.npos)
    refuse(table, 1 + std::ranges::count(text.substr(0, at), '\n'),
           "a carriage return; write line ends as \\n");
  csv_parser parser;
  CHECK(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0, "libcsv cannot start");
  const std::unique_ptr<csv_parser, decltype(&csv_free)> owner(&parser, csv_free);
  ParsedRows rows = {{.line = 1, .cells = {}}};
  const size_t parsed = csv_parse(&parser, text.data(), text.size(), add_cell, end_row, &rows);
  add_rows(table, rows);
  if (parsed < text.size())
    refuse(table, rows.back().line, csv_strerror(csv_error(&parser)), "; is a quote missing?");
  check_cell_size(table, rows.back().line, parser.entry_pos);
  if (csv_fini(&parser, add_cell, end_row, &rows) != 0)
    refuse(table, rows.back().line, "a quote is not closed");
  add_rows(table, rows);
  if (table.rows.empty()) fail(Exit::data, table.path, ": no rows below the names of the columns");
  return table;
}

CsvTable read_table(const Path& path) {
  constexpr int64_t kMost = int64_t{1} << 36;
  return parse_table(path.native(), read_file(path, kMost, Exit::data));
}

std::optional<double> number(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = error == std::errc() && end == cell.data() + cell.size();
  return whole ? std::optional(value) : std::nullopt;
}

// Returns the number in a cell. Throws Error(Exit::data) if it is not finite.
double number_in(const CsvTable& table, const CsvRow& row, size_t column) {
  const std::string& cell = row.cells[column];
  const std::optional<double> value = number(cell);
  if (!value || !std::isfinite(*value) || std::abs(*value) > 1e30)
    refuse(table, row.line, "column ", printable(table.names[column]), ": ", printable(cell),
           " is not a finite number");
  return *value;
}

using TakenRows = std::vector<const CsvRow*>;

// Describes a column by the rows that are taken: numbers if the cells of the whole table are.
Column describe(const CsvTable& table, size_t at, const TakenRows& taken) {
  Column column{.name = table.names[at]};
  const bool numbers = std::ranges::all_of(
      table.rows, [&](const CsvRow& row) { return number(row.cells[at]).has_value(); });
  std::set<std::string> categories;
  const double n = std::max(1.0, double(taken.size()));
  double sum = 0, squares = 0;
  for (const CsvRow* row : taken) {
    const double value = numbers ? number_in(table, *row, at) : 0;
    if (!numbers) categories.insert(row->cells[at]);
    sum += value, squares += value * value;
  }
  column.categories.assign(categories.begin(), categories.end());
  column.mean = sum / n;
  const double variance = squares / n - column.mean * column.mean;
  column.std = variance > 1e-12 * squares / n ? std::sqrt(variance) : 1;
  return column;
}

// Appends the numbers of the columns of a row to `to`. Throws Error(Exit::data) with path and line
// for a cell that is no finite number, or a category that is not known.
void encode_row(const CsvTable& table, const CsvRow& row, const std::vector<Column>& columns,
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

enum class CsvTarget { classes, values };
struct CsvOptions : HeldOut {
  std::string target;
  CsvTarget target_is = CsvTarget::classes;
  std::vector<std::string> inputs;
};
void visit(Visitor& v, CsvOptions& o) {
  visit(v, static_cast<HeldOut&>(o));
  v("target", o.target, "name of the target's column");
  v("target_is", o.target_is, {"classes", "values"}, "what the target's column has");
  v.list("inputs", o.inputs, "names of the input columns; empty: all but the target");
}

TakenRows rows_of(const CsvTable& table, const CsvOptions& o, Split split) {
  TakenRows taken;
  for (const int64_t i : o.taken(split, std::ssize(table.rows))) taken.push_back(&table.rows[i]);
  return taken;
}

// The columns and classes of the training rows.
struct Known {
  std::vector<Column> columns;
  std::vector<std::string> classes;
};

Known known_of(const CsvTable& table, const CsvOptions& o) {
  const TakenRows taken = rows_of(table, o, Split::train);
  std::vector<std::string> inputs = o.inputs;
  if (inputs.empty())
    std::ranges::copy_if(table.names, std::back_inserter(inputs),
                         [&](const std::string& name) { return name != o.target; });
  Known known;
  for (const std::string& name : inputs)
    known.columns.push_back(describe(table, table.index_of(name), taken));
  if (o.target_is == CsvTarget::values) return known;
  std::set<std::string> classes;
  for (const CsvRow* row : taken) classes.insert(row->cells[table.index_of(o.target)]);
  known.classes.assign(classes.begin(), classes.end());
  return known;
}

float target_of(const CsvTable& table, const CsvRow& row, size_t column, const Known& known) {
  if (known.classes.empty()) return float(number_in(table, row, column));
  const auto found = std::ranges::find(known.classes, row.cells[column]);
  if (found == known.classes.end())
    refuse(table, row.line, "the class ", printable(row.cells[column]),
           " is not among those of the training rows");
  return float(found - known.classes.begin());
}

}  // namespace

static DatasetPtr make_csv(const CsvOptions& o, const DatasetContext& context) {
  CHECK(!o.target.empty(), "data.target must name a column");
  const CsvTable table = read_table(o.of(context.split));
  Known known{context.columns, context.classes};
  if (known.columns.empty())
    known = known_of(o.of(context.split) == o.file ? table : read_table(o.file), o);
  const size_t target = table.index_of(o.target);
  std::vector<float> x, y;
  for (const CsvRow* row : rows_of(table, o, context.split)) {
    encode_row(table, *row, known.columns, x);
    y.push_back(target_of(table, *row, target, known));
  }
  if (y.empty()) fail(Exit::data, table.path, ": no rows are left to train or to test on");
  const int64_t rows = std::ssize(y), width = std::ssize(x) / rows;
  const bool values = known.classes.empty();
  const DatasetInfo info{.input = {DType::f32, {width}},
                         .target = {values ? DType::f32 : DType::i64, {}},
                         .classes = std::ssize(known.classes),
                         .names = known.classes,
                         .unit = "rows",
                         .columns = known.columns};
  Arrays arrays;
  arrays.x = tensor_of(x, {rows, width});
  arrays.y =
      values ? tensor_of(y, {rows}) : tensor_of(std::vector<int64_t>(y.begin(), y.end()), {rows});
  return std::make_shared<ArrayDataset>(info, std::move(arrays), table.path);
}
static const AddDataset csv_entry("csv", "rows of a table, comma-separated", &make_csv,
                                  {"table", "tabular", "tsv", "pandas", "dataframe",
                                   "spreadsheet"});

static std::vector<Tensor> rows_given(const NoOptions&, const GivenInputs& given) {
  const CsvTable table = parse_table(given.name, given.bytes);
  std::vector<Tensor> inputs;
  for (const CsvRow& row : table.rows) {
    std::vector<float> x;
    encode_row(table, row, given.info.columns, x);
    inputs.push_back(tensor_of(x, {1, std::ssize(x)}));
  }
  return inputs;
}
static const AddEntry<MakeInputs> csv_inputs("csv", "CSV files with the columns of the training",
                                             &rows_given);

}  // namespace bellows
