// A data set: samples by index, each a planar image of bytes and its label. A data set is a file
// that registers itself:  static const AddEntry<MakeDataset> entry("mnist", "help", &make_mnist);
#pragma once
#include <memory>
#include <optional>
#include "core/config/choice.h"
#include "data/images/sample.h"

namespace bellows {

enum class Split { train, test };

struct DatasetInfo {
  Shape sample;         // (C, H, W); H and W are 0 if they differ from sample to sample
  int64_t classes = 0;  // labels are in [0, classes)
  std::vector<std::string> names = {};  // of the classes; empty: they are numbers
  const char* unit = "images";          // what `ips` counts
  std::vector<float> mean, std;         // of its pixels as numbers in [0, 1], per channel
};

// Returns class names in the order of labels: the data set's own, or "0", "1" and so on.
std::vector<std::string> class_names(const DatasetInfo& info);

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual const DatasetInfo& info() const = 0;
  // Thread-safe. Throws Error(Exit::data) for a sample that cannot be read.
  virtual Sample at(int64_t index, Scratch& scratch) const = 0;
  // The same, but of a picture only what is wanted of it must be there.
  virtual Sample at_least(int64_t index, const ViewOf&, Scratch& scratch) const {
    return at(index, scratch);
  }
  // The file that it is decoded from, where there is one: what packing keeps. Nobody has looked
  // into it. Thread-safe; throws as at() does.
  virtual std::optional<EncodedSample> encoded(int64_t) const { return {}; }
  // Where that sample comes from, printable(): a path, or the name of what made it.
  virtual std::string origin(int64_t index) const = 0;
  // Printed at start-up, a line each: what of its files was left out.
  virtual std::vector<std::string> notes() const { return {}; }
  // All samples are in memory, or stay there once they have been read, and at() gives the same
  // bytes each time: a device may hold them, too.
  virtual bool in_memory() const { return false; }
  // First sample of each page, where samples lie in pages that are best read as a whole.
  virtual std::vector<int64_t> pages() const { return {}; }
};

struct DatasetContext {
  Split split = Split::train;
  // Classes in the order of a trained model's outputs, for a set that finds its own in the training
  // split's files: those are not read then. Empty: the set's own.
  std::vector<std::string> classes = {};
};
using MakeDataset = std::shared_ptr<const Dataset>(const DatasetContext&);
using DatasetChoice = Choice<MakeDataset>;

// Samples of one shape that are held in memory: `pixels` one after the other, a label for each.
class MemoryDataset : public Dataset {
 public:
  // Refuses a label that is not below info.classes; it comes from `labels_origin`, where that is
  // another place.
  MemoryDataset(DatasetInfo info, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
                std::string origin, const std::string& labels_origin = "");
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const DatasetInfo& info() const override { return info_; }
  Sample at(int64_t index, Scratch&) const override {
    return {pixels_.data() + index * bytes_, info_.sample, labels_[index]};
  }
  std::string origin(int64_t) const override { return origin_; }
  bool in_memory() const override { return true; }

 private:
  DatasetInfo info_;
  int64_t bytes_;  // of a sample
  std::vector<uint8_t> pixels_, labels_;
  std::string origin_;
};

}  // namespace bellows
