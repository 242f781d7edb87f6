// csv: the rows of a table. Numbers are standardized by the training rows; other columns are
// categories, with one input for each.
#include <algorithm>
#include <set>
#include "data/sets/arrays.h"
#include "data/sets/held_out.h"
#include "data/sets/table.h"

namespace bellows {

namespace {
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

using Takes = std::function<bool(int64_t)>;

// The columns and classes of the training rows.
struct Known {
  std::vector<Column> columns;
  std::vector<std::string> classes;
};

Known known_of(const CsvTable& table, const CsvOptions& o, const Takes& takes) {
  std::vector<std::string> inputs = o.inputs;
  if (inputs.empty())
    std::ranges::copy_if(table.names, std::back_inserter(inputs),
                         [&](const std::string& name) { return name != o.target; });
  Known known{describe(table, inputs, takes), {}};
  if (o.target_is == CsvTarget::values) return known;
  std::set<std::string> classes;
  for (int64_t i = 0; i < std::ssize(table.rows); ++i)
    if (takes(i)) classes.insert(table.rows[i].cells[table.index_of(o.target)]);
  known.classes.assign(classes.begin(), classes.end());
  return known;
}

float target_of(const CsvTable& table, const CsvTable::Row& row, size_t column,
                const Known& known) {
  if (known.classes.empty()) return float(number_in(table, row, column));
  const auto found = std::ranges::find(known.classes, row.cells[column]);
  if (found == known.classes.end())
    fail(Exit::data, table.path, ", line ", row.line, ": the class ", printable(row.cells[column]),
         " is not among those of the training rows");
  return float(found - known.classes.begin());
}

}  // namespace

static DatasetPtr make_csv(const CsvOptions& o, const DatasetContext& context) {
  CHECK(!o.target.empty(), "data.target must name a column");
  const CsvTable table = read_table(o.of(context.split));
  Known known{context.columns, context.classes};
  if (known.columns.empty()) {
    const bool same = o.of(context.split) == o.file;
    known = known_of(same ? table : read_table(o.file), o,
                     [&](int64_t i) { return o.takes(Split::train, i); });
  }
  const size_t target = table.index_of(o.target);
  std::vector<float> x, y;
  for (int64_t i = 0; i < std::ssize(table.rows); ++i) {
    if (!o.takes(context.split, i)) continue;
    encode_row(table, table.rows[i], known.columns, x);
    y.push_back(target_of(table, table.rows[i], target, known));
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
static const AddEntry<MakeDataset> csv_entry("csv", "rows of a table, comma-separated", &make_csv);

static std::vector<Tensor> rows_given(const NoOptions&, const GivenInputs& given) {
  std::string all = given.bytes;
  const CsvTable table = parse_table(given.name, [&] { return std::exchange(all, {}); });
  std::vector<Tensor> inputs;
  for (const CsvTable::Row& row : table.rows) {
    std::vector<float> x;
    encode_row(table, row, given.info.columns, x);
    inputs.push_back(tensor_of(x, {1, std::ssize(x)}));
  }
  return inputs;
}
static const AddEntry<MakeInputs> csv_inputs("csv", "CSV files with the columns of the training",
                                             &rows_given);

}  // namespace bellows
