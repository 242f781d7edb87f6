#include "trainer/session/data_card.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/crc32c.h"
#include "core/config/values.h"
#include "data/images/image_file.h"
#include "data/sets/arrays.h"
#include "trainer/session/record.h"

namespace bellows {

static void check_number(int64_t number, int64_t least, int64_t most, const char* what) {
  if (number < least || number > most)
    fail(Exit::checkpoint, "the checkpoint's 'dataset': ", what, " is ", number,
         ", not a number from ", least, " to ", most);
}

static void visit_shape(Record& r, const char* key, Shape& shape) {
  std::vector<int64_t> sides(shape.begin(), shape.end());
  r(key, sides);
  check_number(std::ssize(sides), 0, kMaxRank, "the number of axes");
  shape = Shape(sides);
}

static void visit(Record& r, Field& field) {
  std::string dtype = name_of(field.dtype);
  r("dtype", dtype);
  visit_shape(r, "shape", field.shape);
  r("varies", field.varies);
  if (dtype != "i64" && dtype != "f32")
    fail(Exit::checkpoint, "the checkpoint's 'dataset': values of type ", printable(dtype));
  field.dtype = dtype == "i64" ? DType::i64 : DType::f32;
  for (const int64_t side : field.shape) check_number(side, 1, 1 << 24, "a side of a sample");
  if (field.varies) check_number(field.shape.rank(), 1, kMaxRank, "the axes of varying samples");
}

static void visit(Record& r, Column& column) {
  r("name", column.name);
  r("mean", column.mean);
  r("std", column.std);
  r("categories", column.categories);
}

constexpr double kMostSamples = int64_t{1} << 40;

static void visit(Record& r, TrainingSetInfo& trained) {
  DatasetInfo& info = trained.info;
  r("samples", trained.samples, {1, kMostSamples});
  visit_shape(r, "sample", info.input.shape);
  r("classes", info.classes, {0, 1 << 24});
  r("mean", info.mean);
  r("std", info.std);
  const bool images = r.reading ? !r.json.contains("input") : info.images();
  if (images) info.input.dtype = DType::u8;
  if (images) return;
  r.group("input", info.input);
  r.group("target", info.target);
  r("unit", info.unit);
  r("units", info.units, {1, kMostSamples});
  if (!r.reading)
    for (const Column& column : info.columns) r.json["columns"].push_back(to_record(column));
  else
    for (const Json& column : r.json.value("columns", Json::array()))
      info.columns.push_back(from_record<Column>(column));
}

Json data_card(const Dataset& train_set) {
  return to_record(TrainingSetInfo{train_set.info(), train_set.size()});
}

TrainingSetInfo read_data_card(const Json& card, const Names& names) {
  auto trained = from_record<TrainingSetInfo>(card);
  DatasetInfo& info = trained.info;
  info.unit = printable(info.unit);
  info.names = names;
  if (const Shape& shape = info.input.shape; info.images()) {
    check_number(shape.rank(), 3, 3, "the number of axes");
    check_number(shape[0], 1, kMaxChannels, "the number of channels");
    check_number(shape[1], 0, 65536, "the height");
    check_number(shape[2], 0, 65536, "the width");
    check_number(info.classes, 1, 1 << 24, "the number of classes");
  }
  const int64_t channels = info.images() ? info.input.shape[0] : std::ssize(info.mean);
  for (const auto& values : {info.mean, info.std})  // one value per channel, or none
    if ((!values.empty() && std::ssize(values) != channels) ||
        !std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
      fail(Exit::checkpoint, "the checkpoint's 'dataset': ", values.size(), " values for ",
           channels, " channels, or one that is not finite");
  if (!names.empty() && std::ssize(names) != info.classes)
    fail(Exit::checkpoint, "the checkpoint has ", names.size(), " names for ", info.classes,
         " classes");
  return trained;
}

Json to_json(std::vector<TransformChoice> transforms) {
  Listing listing;
  listing.choices("list", transforms, "");
  Json json;
  for (Listing::Line& line : listing.lines) {
    const Json value = parse_json(line.text);
    const bool as_is = value.is_number() || value.is_boolean() || line.empty_list();
    std::ranges::replace(line.key, '.', '/');
    json[Json::json_pointer("/" + line.key)] = as_is ? value : Json(line.text);
  }
  return json.at("list");
}

std::string fingerprint(const Dataset& data, int64_t most) {
  uint32_t crc = 0;
  Scratch scratch;
  const int64_t n = data.size(), taken = data.arrays() ? 0 : std::min(n, most);
  if (const Arrays* const arrays = data.arrays())
    for (const Tensor& part : {arrays->x, arrays->y, arrays->offsets})
      if (part.defined()) crc = crc32c({part.bytes(), part.nbytes()}, crc);
  for (int64_t i = 0; i < taken; ++i) {
    try {
      const Sample sample = data.at(i * n / taken, scratch);
      crc = crc32c(std::as_bytes(std::span(sample.pixels, sample.shape.numel())), crc);
      crc = crc32c(std::as_bytes(std::span(&sample.label, 1)), crc);
    } catch (const Error& error) {  // training counts damaged samples
      if (error.exit != Exit::data) throw;
    }
  }
  return fmt::format("{} samples, crc {:08x}", n, crc);
}

}  // namespace bellows
