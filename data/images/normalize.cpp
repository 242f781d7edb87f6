// normalize: (x - mean) / std per channel, of pixels scaled to [0, 1].
#include <fmt/format.h>
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct NormalizeOptions {
  std::vector<double> mean, std;
};
void visit(Visitor& v, NormalizeOptions& o) {
  v.list("mean", o.mean, "per channel; empty: the data set's own");
  v.list("std", o.std, "per channel; empty: the data set's own", {.min = 1e-6});
}

std::vector<float> or_else(const std::vector<double>& given, const std::vector<float>& own) {
  return given.empty() ? own : std::vector<float>(given.begin(), given.end());
}

// Returns the shortest decimals that read back as the same floats: 0.1307, not 0.13070000708103180.
std::vector<double> decimals(const std::vector<float>& values) {
  std::vector<double> all;
  for (const float value : values) all.push_back(std::stod(fmt::format("{}", value)));
  return all;
}

}  // namespace

std::vector<TransformChoice> with_statistics(std::vector<TransformChoice> list,
                                             const DatasetInfo& info) {
  for (TransformChoice& item : list) {
    if (item.name() != "normalize") continue;
    auto& o = item.as<NormalizeOptions>();
    if (o.mean.empty()) o.mean = decimals(info.mean);
    if (o.std.empty()) o.std = decimals(info.std);
  }
  return list;
}

static Transform make_normalize(const NormalizeOptions& o, const DatasetInfo& info) {
  const std::vector<float> mean = or_else(o.mean, info.mean), std = or_else(o.std, info.std);
  const size_t channels = info.input.shape[0];
  CHECK(mean.size() == channels && std.size() == channels, "normalize: ", mean.size(),
        " means and ", std.size(), " deviations for ", channels,
        " channels; give one of each for each channel");
  const auto apply = [mean, std](ImagePlan& image, TransformMode, const RngKey&) {
    Levels& levels = image.levels;
    for (size_t c = 0; c < mean.size(); ++c) {
      levels.scale[c] /= std[c];
      levels.shift[c] = (levels.shift[c] - mean[c]) / std[c];
    }
  };
  const Edit edit{.kind = Edit::Kind::levels};
  return {apply, false, {edit, edit}};
}

static const AddTransform normalize_entry("normalize", "(x - mean) / std, per channel",
                                          TransformPhase::levels, &make_normalize);

}  // namespace bellows
