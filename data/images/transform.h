// From a data set's bytes to the model's numbers. A transform edits the description of a picture;
// its pixels are touched once, by write_picture, straight into the batch.
#pragma once
#include <limits>
#include "data/images/picture.h"
#include "data/images/recipe.h"

namespace bellows {

enum class Use { training, evaluation };

class Transform {
 public:
  virtual ~Transform() = default;
  // Thread-safe. Random numbers are functions of `key`, which is that of (seed, epoch, sample,
  // place in the list), so they do not depend on workers, ranks or batch size.
  virtual void apply(Picture& picture, const RngKey& key) const = 0;
  // What stands in for it in evaluation, where nothing is left to chance.
  virtual void settle(Picture& picture) const { apply(picture, {}); }
  virtual bool is_random() const { return false; }
  // The same as one edit that a device can do, too; none: only the host can.
  virtual std::optional<Edit> edit(Use) const { return {}; }
  // (C, H, W) of what it leaves of such pictures; sides that differ from one to the next are 0.
  virtual Shape shape_of(const Shape& in) const { return in; }
  // The same in an epoch of training: pictures may grow from one to the next, and never shrink.
  virtual Shape shape_in(int64_t, const Shape& in) const { return shape_of(in); }
};

class RandomTransform : public Transform {
 public:
  void settle(Picture&) const override {}
  bool is_random() const final { return true; }
};

// One that is an edit, and in evaluation another one.
class EditTransform final : public Transform {
 public:
  explicit EditTransform(const Edit& training, const Edit& evaluation = {})
      : training_(training), evaluation_(evaluation) {}
  void apply(Picture& picture, const RngKey& key) const override;
  void settle(Picture& picture) const override { evaluation_.apply(picture, RngKey()); }
  bool is_random() const override { return training_.is_random(); }
  std::optional<Edit> edit(Use use) const override {
    return use == Use::training ? training_ : evaluation_;
  }
  Shape shape_of(const Shape& in) const override;

 private:
  Edit training_, evaluation_;
};

using MakeTransform = std::shared_ptr<const Transform>(const DatasetInfo&);
using TransformChoice = Choice<MakeTransform>;

// The list with the data set's mean and std written into each normalize that leaves them to the
// data set, so that it does the same to any other set.
std::vector<TransformChoice> with_statistics(std::vector<TransformChoice> list,
                                             const DatasetInfo& info);

enum class DoneBy { host, device };

class Transforms {
 public:
  // An empty list stands for normalize with the data set's own statistics. Where a device does its
  // share, that is the end of the list, from the place on where all are edits and take pictures of
  // one size; what stands before is done here, and is rounded to bytes. Where `tta` gives several
  // views, an epoch is the number of one of them.
  Transforms(std::vector<TransformChoice> choices, const DatasetInfo& info, Use use = Use::training,
             DoneBy by = DoneBy::host, Tta tta = Tta::none);
  // (C, H, W) of what the model gets in an epoch, and of what is made here, in this type.
  Shape shape(int64_t epoch) const { return shape_behind(items_.size(), epoch); }
  Shape made_shape(int64_t epoch) const { return shape_behind(made_, epoch); }
  Shape shape() const { return shape(kLastEpoch); }  // the largest
  Shape made_shape() const { return made_shape(kLastEpoch); }
  DType dtype() const { return by_ == DoneBy::host ? DType::f32 : DType::u8; }
  // What becomes of a picture of that shape here. Thread-safe, and the same each time.
  Picture plan(const Shape& sample, uint64_t seed, int64_t epoch, int64_t index) const;
  // Thread-safe. `out` has room for made_shape(epoch), of dtype(): numbers as one image of a batch
  // in that format, bytes as (C, H, W). Refuses a sample of another shape than the data set's.
  void write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index, float* out,
             const MemoryFormat& format = kNCHW) const;
  void write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index, uint8_t* out) const;
  // All that is done to any picture; none if there is more to it than levels.
  std::optional<Levels> levels() const;
  // What is left to a device. Where that is all, it takes the data set's own bytes.
  const Recipe& recipe() const { return recipe_; }
  const TtaView& view(int64_t epoch) const;
  bool all_left() const { return std::ranges::all_of(items_, &Item::left); }

 private:
  struct Item {
    std::string name;
    std::shared_ptr<const Transform> transform;
    bool any_size = false;  // of the pictures before it
    bool left = false;      // to a device
  };
  static constexpr int64_t kLastEpoch = std::numeric_limits<int64_t>::max();
  Shape shape_behind(size_t items, int64_t epoch) const;
  Shape shape_behind(const Item& item, const Shape& in, int64_t epoch) const;
  void leave_to_device();
  void fill_recipe();
  void refuse_what_cannot_be() const;
  void apply(const Item& item, Picture& picture, const RngKey& key) const;
  Picture plan(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index) const;

  Use use_;
  DoneBy by_;
  std::vector<TtaView> views_;
  Shape in_;
  std::vector<Item> items_;
  size_t made_;  // that many transforms are done here
  Recipe recipe_;
};

}  // namespace bellows
