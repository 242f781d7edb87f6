// Dataset: samples by index, each an image of bytes and its label, or arrays (data/sets/arrays.h).
// Each data set is one file, which registers itself:
//   static const AddDataset mnist_entry("mnist", "help", &make_mnist);
#pragma once
#include <memory>
#include <optional>
#include <span>
#include "core/config/choice.h"
#include "data/images/sample.h"

namespace bellows {

enum class Split { train, test };
struct Arrays;

// Returns class names in the order of labels: the data set's own, or "0", "1" and so on.
inline std::vector<std::string> class_names(const DatasetInfo& info) {
  std::vector<std::string> names = info.names;
  for (int64_t i = std::ssize(names); i < info.classes; ++i) names.push_back(std::to_string(i));
  return names;
}

class Dataset {
 public:
  explicit Dataset(DatasetInfo info = {}) : info_(std::move(info)) {}
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual const DatasetInfo& info() const { return info_; }
  // Returns a sample. Decodes at least the view `wanted`, or the whole sample if that is empty. Its
  // pixels are in `scratch` or in the data set. Throws Error(Exit::data) if it cannot be read.
  // Thread-safe.
  virtual Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const = 0;
  Sample at(int64_t index, Scratch& scratch) const { return at_least(index, {}, scratch); }
  // Returns the file that the sample is decoded from, if there is one; packing keeps it. Its
  // contents are not checked. Throws as at() does. Thread-safe.
  virtual std::optional<EncodedSample> encoded(int64_t) const { return {}; }
  // Returns the origin of a sample, printable(): a path, or the name of the generator.
  virtual std::string origin(int64_t index) const = 0;
  // Returns a sample's label if it is known without reading the sample, else -1. Thread-safe.
  virtual int64_t label(int64_t) const { return -1; }
  // Number of samples that without_damaged() has left out, and a line that counts them by class.
  int64_t damaged() const { return damaged_; }
  const std::string& damaged_text() const { return damaged_text_; }
  // Returns the lines to print at start-up: files that were left out.
  virtual std::vector<std::string> notes() const { return {}; }
  // Returns the samples of a data set that has no images; null for images. If not null, only
  // size(), info(), origin() and notes() may be called.
  virtual const Arrays* arrays() const { return nullptr; }
  // True if at() decodes nothing and always returns the same pixels, (C, H, W) as in info(): a
  // device may keep them.
  virtual bool fixed_pixels() const { return false; }

 protected:
  DatasetInfo info_;
  int64_t damaged_ = 0;
  std::string damaged_text_;
};

struct DatasetContext {
  Split split = Split::train;
  // Classes in the order of a trained model's outputs. A data set that finds its classes in the
  // files of the training split uses these instead and does not read those files. Empty: its own.
  std::vector<std::string> classes = {};
  // Columns in the order of a trained model's inputs, for tables. Empty: the data set's own.
  std::vector<Column> columns = {};
};
using DatasetPtr = std::shared_ptr<const Dataset>;
using MakeDataset = DatasetPtr(const DatasetContext&);
using DatasetChoice = Choice<MakeDataset>;
using AddDataset = AddEntry<MakeDataset>;

// Throws Error(Exit::data), which begins with the path, for a label that is not below `classes`.
inline void check_labels(std::span<const uint8_t> labels, int64_t classes,
                         const std::string& path) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes)
      fail(Exit::data, path, ": record ", i, " has label ", int(labels[i]), ", not one of 0 to ",
           classes - 1);
}

// Samples of one shape, in memory: `pixels` is (N, C, H, W), `labels` is (N).
class MemoryDataset : public Dataset {
 public:
  MemoryDataset(DatasetInfo info, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
                std::string origin)
      : Dataset(std::move(info)),
        bytes_(info_.input.shape.numel()),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        origin_(std::move(origin)) {
    INVARIANT(pixels_.size() == labels_.size() * bytes_, pixels_.size(), " bytes for ",
              labels_.size(), " samples of ", info_.input.shape);
  }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Sample at_least(int64_t index, const ViewOf&, Scratch&) const override {
    return {pixels_.data() + index * bytes_, info_.input.shape, labels_[index]};
  }
  std::string origin(int64_t) const override { return origin_; }
  int64_t label(int64_t index) const override { return labels_[index]; }
  bool fixed_pixels() const override { return true; }

 private:
  int64_t bytes_;  // bytes per sample
  std::vector<uint8_t> pixels_, labels_;
  std::string origin_;
};

}  // namespace bellows
