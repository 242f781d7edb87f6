#include "data/sets/dataset.h"

namespace bellows {

std::vector<std::string> class_names(const DatasetInfo& info) {
  std::vector<std::string> names = info.names;
  for (int64_t i = std::ssize(names); i < info.classes; ++i) names.push_back(std::to_string(i));
  return names;
}

void check_labels(std::span<const uint8_t> labels, int64_t classes, const std::string& path) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes)
      fail(Exit::data, path, ": record ", i, " has label ", int(labels[i]), ", not one of 0 to ",
           classes - 1);
}

MemoryDataset::MemoryDataset(DatasetInfo info, std::vector<uint8_t> pixels,
                             std::vector<uint8_t> labels, std::string origin)
    : Dataset(std::move(info)),
      bytes_(info_.input.shape.numel()),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      origin_(std::move(origin)) {
  INVARIANT(pixels_.size() == labels_.size() * bytes_, pixels_.size(), " bytes for ",
            labels_.size(), " samples of ", info_.input.shape);
}

}  // namespace bellows
