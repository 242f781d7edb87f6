#include "trainer/session/data_card.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/base/crc32c.h"
#include "core/base/json.h"
#include "core/config/values.h"
#include "data/images/image_file.h"
#include "plan/plan.h"

namespace bellows {

DatasetPtr open_set(const DataOptions& data, Split split, const Names& names) {
  most_pixels() = data.loader.batch.max_pixels;
  return data.dataset.make({split, names});
}

Json data_card(const Dataset& train_set) {
  const DatasetInfo& info = train_set.info();
  return {{"samples", train_set.size()},
          {"sample", {info.sample[0], info.sample[1], info.sample[2]}},
          {"classes", info.classes},
          {"mean", info.mean},
          {"std", info.std}};
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

TrainingSetInfo read_data_card(const Json& card, const Names& names) {
  constexpr int64_t kSide = 65536, kMost = int64_t{1} << 40;
  const Json& sample = card.at("sample");
  const int64_t channels = number_in(sample.at(0), 1, kMaxChannels, "the number of channels");
  TrainingSetInfo trained;
  trained.samples = number_in(card.at("samples"), 1, kMost, "the number of samples");
  trained.info.sample = {channels, number_in(sample.at(1), 0, kSide, "the height"),
                         number_in(sample.at(2), 0, kSide, "the width")};
  trained.info.classes = number_in(card.at("classes"), 1, 1 << 24, "the number of classes");
  trained.info.names = names;
  trained.info.mean = statistics_in(card.at("mean"), channels);
  trained.info.std = statistics_in(card.at("std"), channels);
  if (!names.empty() && std::ssize(names) != trained.info.classes)
    fail(Exit::checkpoint, "the checkpoint has ", names.size(), " names for ", trained.info.classes,
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
  const int64_t n = data.size(), taken = std::min(n, kSamples);
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
