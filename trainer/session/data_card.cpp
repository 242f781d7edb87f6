#include "trainer/session/data_card.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/base/crc32c.h"
#include "core/base/json.h"
#include "core/config/values.h"
#include "data/images/image_file.h"
#include "data/sets/arrays.h"
#include "plan/plan.h"

namespace bellows {

DatasetPtr open_set(const DataOptions& data, Split split, const DatasetInfo* trained) {
  most_pixels() = data.loader.batch.max_pixels;
  if (!trained) return data.dataset.make({split});
  return data.dataset.make({split, class_names(*trained), trained->columns});
}

static Json to_json(const Field& field) {
  const Shape& shape = field.shape;
  return {{"dtype", name_of(field.dtype)},
          {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
          {"varies", field.varies}};
}

Json data_card(const Dataset& train_set) {
  const DatasetInfo& info = train_set.info();
  Json card = {{"samples", train_set.size()},
               {"sample", to_json(info.input).at("shape")},
               {"classes", info.classes},
               {"mean", info.mean},
               {"std", info.std}};
  if (info.images()) return card;
  card.update({{"input", to_json(info.input)},
               {"target", to_json(info.target)},
               {"unit", info.unit},
               {"units", info.units}});
  for (const Column& column : info.columns)
    card["columns"].push_back({{"name", column.name},
                               {"mean", column.mean},
                               {"std", column.std},
                               {"categories", column.categories}});
  return card;
}

static int64_t number_in(const Json& value, int64_t least, int64_t most, const char* what) {
  const auto number = value.get<int64_t>();
  if (number < least || number > most)
    fail(Exit::checkpoint, "the checkpoint's 'dataset': ", what, " is ", number,
         ", not a number from ", least, " to ", most);
  return number;
}

// Reads one value per channel, or none.
static std::vector<float> statistics_in(const Json& value, int64_t channels) {
  const auto all = value.get<std::vector<float>>();
  const bool whole = all.empty() || std::ssize(all) == channels;
  if (!whole || !std::ranges::all_of(all, [](float x) { return std::isfinite(x); }))
    fail(Exit::checkpoint, "the checkpoint's 'dataset': ", all.size(), " values for ", channels,
         " channels, or one that is not finite");
  return all;
}

constexpr int64_t kMostSamples = int64_t{1} << 40;

static Field read_field(const Json& json, const char* what) {
  constexpr int64_t kLongest = 1 << 24;
  const auto dtype = json.at("dtype").get<std::string>();
  if (dtype != "i64" && dtype != "f32")
    fail(Exit::checkpoint, "the checkpoint's 'dataset': ", what, " of ", printable(dtype));
  Field field{dtype == "i64" ? DType::i64 : DType::f32, {}, json.at("varies").get<bool>()};
  for (const Json& side : json.at("shape"))
    field.shape.push_back(number_in(side, 1, kLongest, what));
  if (field.varies && field.shape.empty())
    fail(Exit::checkpoint, "the checkpoint's 'dataset': ", what, " without an axis that varies");
  return field;
}

static Field read_image(const Json& sample) {
  constexpr int64_t kSide = 65536;
  return {DType::u8,
          {number_in(sample.at(0), 1, kMaxChannels, "the number of channels"),
           number_in(sample.at(1), 0, kSide, "the height"),
           number_in(sample.at(2), 0, kSide, "the width")}};
}

TrainingSetInfo read_data_card(const Json& card, const Names& names) {
  TrainingSetInfo trained;
  DatasetInfo& info = trained.info;
  trained.samples = number_in(card.at("samples"), 1, kMostSamples, "the number of samples");
  info.input = card.contains("input") ? read_field(card.at("input"), "an input")
                                      : read_image(card.at("sample"));
  if (!info.images()) {
    info.target = read_field(card.at("target"), "a target");
    info.unit = printable(card.at("unit").get<std::string>());
    info.units = number_in(card.at("units"), 1, kMostSamples, "the units of a sample");
    for (const Json& column : card.value("columns", Json::array()))
      info.columns.push_back({column.at("name").get<std::string>(), column.at("mean").get<double>(),
                              column.at("std").get<double>(),
                              column.at("categories").get<std::vector<std::string>>()});
  }
  info.classes = number_in(card.at("classes"), info.images(), 1 << 24, "the number of classes");
  info.names = names;
  const int64_t channels = info.images() ? info.input.shape[0] : info.mean.size();
  info.mean = statistics_in(card.at("mean"), channels);
  info.std = statistics_in(card.at("std"), channels);
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

std::string fingerprint(const Dataset& data) {
  constexpr int64_t kSamples = 256;
  uint32_t crc = 0;
  Scratch scratch;
  const int64_t n = data.size(), taken = data.arrays() ? 0 : std::min(n, kSamples);
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
