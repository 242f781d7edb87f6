// From a data set's bytes to the model's numbers. A transform edits the description of a picture;
// its pixels are touched once, by write_picture, straight into the batch.
#pragma once
#include "core/rng.h"
#include "data/picture.h"
#include "data/tta.h"

namespace bellows {

class Transform {
 public:
  virtual ~Transform() = default;
  // Thread-safe. Random numbers are functions of `key`, which is that of (seed, epoch, sample,
  // place in the list), so they do not depend on workers, ranks or batch size.
  virtual void apply(Picture& picture, const RngKey& key) const = 0;
  // What stands in for it in evaluation, where nothing is left to chance.
  virtual void settle(Picture& picture) const { apply(picture, {}); }
  virtual bool is_random() const { return false; }
  // (C, H, W) of what it leaves of such pictures; sides that differ from one to the next are 0.
  virtual Shape shape_of(const Shape& in) const { return in; }
};

class RandomTransform : public Transform {
 public:
  void settle(Picture&) const override {}
  bool is_random() const final { return true; }
};

using MakeTransform = std::shared_ptr<const Transform>(const DatasetInfo&);
using TransformChoice = Choice<MakeTransform>;

enum class Use { training, evaluation };

class Transforms {
 public:
  // An empty list stands for normalize with the data set's own statistics. Where `tta` gives
  // several views, an epoch is the number of one of them.
  Transforms(std::vector<TransformChoice> choices, const DatasetInfo& info,
             Use use = Use::training, Tta tta = Tta::none);
  const Shape& shape() const { return out_; }  // (C, H, W) of what is written
  // What becomes of a picture of that shape. Thread-safe, and the same each time.
  Picture plan(const Shape& sample, uint64_t seed, int64_t epoch, int64_t index) const;
  // Thread-safe. `out` has room for shape(). Refuses a sample of another shape than the data set's.
  void write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index, float* out) const;
  // All that is done to any picture; none if there is more to it than levels.
  std::optional<Levels> levels() const;

 private:
  struct Step {
    std::string name;
    std::shared_ptr<const Transform> transform;
  };

  Use use_;
  std::vector<TtaView> views_;
  Shape in_, out_;
  std::vector<Step> steps_;
};

}  // namespace bellows
