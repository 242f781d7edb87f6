// npy: two arrays in NumPy's format, inputs and targets, with a sample for each index of axis 0.
// Floating-point, bool and u8 inputs become f32, other integers i64 (tokens). Integer targets are
// classes, others values.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include "core/base/file.h"
#include "core/base/utf8.h"
#include "data/sets/arrays.h"
#include "data/sets/held_out.h"

namespace bellows {

namespace {

struct NpyOptions {
  std::string x, y, test_x, test_y;
  int64_t test_every = 10;
  HeldOut inputs() const { return {x, test_x, test_every}; }
  HeldOut targets() const { return {y, test_y, test_every}; }
};
void visit(Visitor& v, NpyOptions& o) {
  v("x", o.x, "file of the inputs to train on");
  v("y", o.y, "file of the targets");
  v("test_x", o.test_x, "file of the inputs to test on; empty: a part of `x`");
  v("test_y", o.test_y, "file of their targets");
  v("test_every", o.test_every, "without a test_x: each such sample is one to test on",
    {.min = 2, .max = 1e6});
}

struct Array {
  std::string type;  // element type: a key of conversions()
  Shape shape;
  std::string_view bytes;
  int64_t size() const { return type[1] - '0'; }  // bytes of an element
  bool integer() const { return type[0] == 'i' || type[0] == 'u'; }
};

template <class From, class To> void convert_all(std::string_view bytes, std::span<To> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    if constexpr (std::is_same_v<From, F16>)
      to[i] = convert<To>(value);
    else
      to[i] = To(value);
  }
}

// Conversions of elements to `To`, by NumPy's name of their type. An integer above 2^63 wraps.
template <class To> const auto& conversions() {
  static const std::map<std::string, void (*)(std::string_view, std::span<To>)> all = {
      {"f2", convert_all<F16, To>},     {"f4", convert_all<float, To>},
      {"f8", convert_all<double, To>},  {"b1", convert_all<uint8_t, To>},
      {"i1", convert_all<int8_t, To>},  {"u1", convert_all<uint8_t, To>},
      {"i2", convert_all<int16_t, To>}, {"u2", convert_all<uint16_t, To>},
      {"i4", convert_all<int32_t, To>}, {"u4", convert_all<uint32_t, To>},
      {"i8", convert_all<int64_t, To>}, {"u8", convert_all<int64_t, To>}};
  return all;
}

// Returns what is between `begin` and `end` in the header, or "".
std::string between(const std::string& header, const std::string& begin, char end) {
  const size_t at = header.find(begin);
  if (at == header.npos) return "";
  const std::string rest = header.substr(at + begin.size());
  return rest.substr(0, std::min(rest.find(end), rest.size()));
}

// Returns the sides in "3, 28, 28" or "3,"; none if they are not a shape of samples.
Shape sides_in(const std::string& text) {
  int64_t most = int64_t{1} << 40;  // elements
  Shape shape;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    if (*at == ',' || *at == ' ') continue;
    int64_t side = 0;
    const auto [next, error] = std::from_chars(at, end, side);
    if (error != std::errc() || side < 1 || side > most || shape.rank() == kMaxRank - 1) return {};
    shape.push_back(side);
    most /= side;
    at = next - 1;
  }
  return shape;
}

// Header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 28, 28), }
Array read_header(const std::string& path, const std::string& header) {
  const auto refuse = [&](const auto&... why) { fail(Exit::data, path, ": ", why...); };
  std::string type = between(header, "'descr': '", '\'');
  const std::string order = between(header, "'fortran_order': ", ','),
                    sides = between(header, "'shape': (", ')');
  const bool big = type.starts_with('>');
  if (!type.empty() && std::string("<>|=").find(type[0]) != std::string::npos) type.erase(0, 1);
  if (type == "O") refuse("holds pickled Python objects; save numbers, as in x.astype('float32')");
  if (!conversions<float>().contains(type))
    refuse("elements of type ", printable(type), "; use floats or integers of up to 8 bytes");
  if (big) refuse("big-endian; save it with  x.astype('<f4')");
  if (order != "False") refuse("in Fortran order; save  numpy.ascontiguousarray(x)");
  const Array array{type, sides_in(sides), {}};
  if (array.shape.empty()) refuse("shape (", printable(sides), ") has no axis for the samples");
  return array;
}

// Parses the bytes of a file. The array refers to them.
Array parse_npy(const std::string& where, std::string_view all) {
  constexpr int64_t kMostHeader = 1 << 16;
  const auto refuse = [&](const auto&... why) { fail(Exit::data, where, ": ", why...); };
  const auto byte = [&](int64_t at) { return int64_t{uint8_t(all[at])}; };
  if (all.size() < 12 || !all.starts_with("\x93NUMPY") || byte(6) < 1 || byte(6) > 3)
    refuse("not in NumPy's .npy format");
  const bool first_version = byte(6) == 1;
  const int64_t begin = first_version ? 10 : 12;
  const int64_t size =
      byte(8) | byte(9) << 8 | (first_version ? 0 : byte(10) << 16 | byte(11) << 24);
  if (size > kMostHeader || begin + size > std::ssize(all)) refuse("a header of ", size, " bytes");
  Array array = read_header(where, std::string(all.substr(begin, size)));
  array.bytes = all.substr(begin + size);
  const int64_t bytes = std::ssize(array.bytes);
  if (bytes % array.size() || bytes / array.size() != array.shape.numel())
    refuse(bytes, " bytes of data, its header claims ", array.shape, " of ", array.size());
  return array;
}

template <class To> Tensor converted(const Array& a) {
  const Tensor t(a.shape, dtype_of<To>);
  conversions<To>().at(a.type)(a.bytes, t.data<To>());
  return t;
}

// Refuses values that no f32 has, because training would only find a loss of NaN.
void check_finite(const Tensor& t, const std::string& path) {
  if (t.dtype() != DType::f32) return;
  const auto values = t.data<float>();
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad != values.end())
    fail(Exit::data, path, ": element ", bad - values.begin(), " is not a finite f32");
}

Tensor tensor_in(const std::string& where, std::string_view bytes, bool target) {
  const Array array = parse_npy(where, bytes);
  const bool whole = array.integer() && (target || array.size() > 1);
  const Tensor t = whole ? converted<int64_t>(array) : converted<float>(array);
  check_finite(t, where);
  return t;
}

Tensor read(const std::string& path, bool target) {
  constexpr int64_t kMost = int64_t{1} << 36;
  return tensor_in(printable(path), read_file(path, kMost, Exit::data), target);
}

// Returns the samples of the split.
Tensor taken(const Tensor& all, const HeldOut& o, Split split) {
  const std::vector<int64_t> samples = o.taken(split, all.dim(0));
  Shape shape = all.shape();
  shape[0] = std::ssize(samples);
  const Tensor some(shape, all.dtype());
  if (samples.empty()) fail(Exit::data, printable(o.of(split)), ": no samples are left");
  kernels::collate(some, all, {}, tensor_of(samples, {shape[0]}), 0);
  return some;
}

Shape sample_of(const Tensor& all) { return Shape(std::span(all.shape()).subspan(1)); }

}  // namespace

static DatasetPtr make_npy(const NpyOptions& o, const DatasetContext& context) {
  CHECK(o.test_x.empty() == o.test_y.empty(), "data.test_x and data.test_y go together");
  const Split split = context.split;
  const std::string x_path = o.inputs().of(split), y_path = o.targets().of(split);
  const Tensor x = read(x_path, false), y = read(y_path, true);
  if (x.dim(0) != y.dim(0))
    fail(Exit::data, printable(y_path), ": ", y.dim(0), " targets for ", x.dim(0), " inputs in ",
         printable(x_path));
  const Tensor known = split == Split::test && y_path != o.y ? read(o.y, true) : y;
  DatasetInfo info{
      .input = {x.dtype(), sample_of(x)}, .target = {y.dtype(), sample_of(y)}, .unit = "samples"};
  if (y.dtype() == DType::i64)
    info.classes = 1 + std::max<int64_t>(0, std::ranges::max(known.data<int64_t>()));
  return std::make_shared<ArrayDataset>(
      info, Arrays{.x = taken(x, o.inputs(), split), .y = taken(y, o.targets(), split)},
      printable(y_path));
}
static const AddDataset npy_entry("npy", "two arrays in NumPy's .npy format", &make_npy,
                                  {"numpy", "npz", "array", "arrays", "ndarray"});

static std::vector<Tensor> samples_given(const NoOptions&, const GivenInputs& given) {
  const Tensor all = tensor_in(printable(given.name), given.bytes, false);
  if (!(sample_of(all) == given.info.input.shape) || all.dtype() != given.info.input.dtype)
    fail(Exit::data, printable(given.name), ": samples of ", all.dtype(), " ", sample_of(all),
         ", the model was trained on ", given.info.input.dtype, " ", given.info.input.shape);
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < all.dim(0); ++i) {
    Shape shape = all.shape();
    shape[0] = 1;
    inputs.push_back(all.view(shape, all.strides(), i * all.strides()[0]));
  }
  return inputs;
}
static const AddEntry<MakeInputs> npy_inputs("npy", ".npy files of samples", &samples_given);

}  // namespace bellows
