#include "data/dataset.h"

namespace bellows {

MemoryDataset::MemoryDataset(DatasetInfo info, std::vector<uint8_t> pixels,
                             std::vector<uint8_t> labels, std::string origin)
    : info_(std::move(info)),
      bytes_(info_.sample.numel()),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      origin_(std::move(origin)) {
  INVARIANT(pixels_.size() == labels_.size() * bytes_, pixels_.size(), " bytes for ",
            labels_.size(), " samples of ", info_.sample);
  for (size_t i = 0; i < labels_.size(); ++i)
    if (labels_[i] >= info_.classes)
      fail(Exit::data, origin_, ": sample ", i, " has label ", int(labels_[i]),
           ", not one of 0 to ", info_.classes - 1);
}

}  // namespace bellows
