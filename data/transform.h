// From a data set's bytes to the model's numbers. A transform edits the description of a picture;
// its pixels are touched once, by Transforms::write, straight into the batch.
#pragma once
#include "core/rng.h"
#include "data/dataset.h"
#include "data/levels.h"

namespace bellows {

// What will be written: pixel * scale + shift, per channel. Starts as numbers in [0, 1].
struct Picture {
  const uint8_t* pixels;  // (C, H, W)
  Shape shape;
  Levels levels;
};

class Transform {
 public:
  virtual ~Transform() = default;
  // Thread-safe. Random numbers are functions of `key`, which is that of (seed, epoch, sample,
  // place in the list), so they do not depend on workers, ranks or batch size.
  virtual void apply(Picture& picture, const RngKey& key) const = 0;
  virtual Shape shape_of(const Shape& in) const { return in; }  // of what apply() leaves
  // apply() edits the levels only, alike for every picture.
  virtual bool levels_only() const { return false; }
};

using MakeTransform = std::shared_ptr<const Transform>(const DatasetInfo&);
using TransformChoice = Choice<MakeTransform>;

class Transforms {
 public:
  // An empty list stands for normalize with the data set's own statistics.
  Transforms(std::vector<TransformChoice> choices, const DatasetInfo& info);
  const Shape& shape() const { return out_; }  // (C, H, W) of what is written
  // Thread-safe. `out` has room for shape(). Refuses a sample of another shape than the data set's.
  void write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index, float* out) const;
  // All that is done to any picture; none if there is more to it than levels.
  std::optional<Levels> levels() const;

 private:
  struct Step {
    std::string name;
    std::shared_ptr<const Transform> transform;
  };
  void apply_all(Picture& picture, uint64_t seed, int64_t epoch, int64_t index) const;

  Shape in_, out_;
  std::vector<Step> steps_;
};

}  // namespace bellows
