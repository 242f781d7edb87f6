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

class Normalize : public Transform {
 public:
  Normalize(std::vector<float> mean, std::vector<float> std)
      : mean_(std::move(mean)), std_(std::move(std)) {}
  void apply(ImagePlan& p, TransformMode, const RngKey&) const override {
    for (size_t c = 0; c < mean_.size(); ++c) {
      p.levels.scale[c] /= std_[c];
      p.levels.shift[c] = (p.levels.shift[c] - mean_[c]) / std_[c];
    }
  }
  std::optional<Edit> edit(TransformMode) const override {
    return Edit{.kind = Edit::Kind::levels};
  }

 private:
  std::vector<float> mean_, std_;
};

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

static TransformPtr make_normalize(const NormalizeOptions& o, const DatasetInfo& info) {
  const std::vector<float> mean = or_else(o.mean, info.mean), std = or_else(o.std, info.std);
  const size_t channels = info.input.shape[0];
  CHECK(mean.size() == channels && std.size() == channels, "normalize: ", mean.size(),
        " means and ", std.size(), " deviations for ", channels,
        " channels; give one of each for each channel");
  return std::make_shared<Normalize>(mean, std);
}

static const AddTransform normalize_entry("normalize", "(x - mean) / std, per channel",
                                          TransformPhase::levels, &make_normalize);

}  // namespace bellows
