// Transforms: from a data set's bytes to the model's input values. A transform edits the
// description of an image (ImagePlan); write_image then makes one pass over its pixels, straight
// into the batch.
#pragma once
#include <functional>
#include "core/config/choice.h"
#include "data/images/image_plan.h"
#include "data/images/recipe.h"
#include "data/images/sample.h"

namespace bellows {

enum class TransformMode { training, evaluation };

struct Transform {
  // Edits an image. Thread-safe. In training, random values are functions of `key`, made of (seed,
  // epoch, sample, index in the list), so they do not depend on workers, ranks or batch size.
  // Evaluation uses none.
  std::function<void(ImagePlan& image, TransformMode mode, const RngKey& key)> apply;
  bool is_random = false;  // true if training draws random values
  // The transform as an Edit, which a device can run, by mode; none: only the host can run it.
  std::optional<Edit> edits[2] = {};
};

using MakeTransform = Transform(const DatasetInfo&);
using TransformChoice = Choice<MakeTransform>;

// A list of transforms goes through these phases in order, with any number of crops and at most one
// transform of each other phase. Levels may be anywhere, because they apply last.
enum class TransformPhase { levels, resize, crop, color, cutout };  // crop: flips, too

// Registers a transform, as AddEntry does, with its phase.
std::map<std::string, TransformPhase>& phases();
struct AddTransform {
  template <class Options>
  AddTransform(const char* name, const char* help, TransformPhase phase,
               Transform (*make)(const Options&, const DatasetInfo&),
               const char* file = __builtin_FILE()) {
    AddEntry<MakeTransform>(name, help, make, {}, file);
    phases()[name] = phase;
  }
};

// Visits the option `transforms`, a list in the order of its phases; [] becomes [normalize].
void visit_transforms(Visitor& v, std::vector<TransformChoice>& list);

// Returns the list with the data set's mean and std filled into each normalize that has none, so
// that it does the same to any other data set.
std::vector<TransformChoice> with_statistics(std::vector<TransformChoice> list,
                                             const DatasetInfo& info);

enum class DoneBy { host, device };

// A list of transforms for one data set, split between host and device.
class Transforms {
 public:
  // An empty list means normalize, with the data set's own mean and std. With DoneBy::device the
  // end of the list is left to the device: the last transforms, as far as all of them are edits of
  // images of one size. The host runs the ones before them and rounds to bytes. Throws
  // Error(Exit::usage) for a list that is not in the order of the phases, pads twice, or needs
  // larger images than the data set has.
  Transforms(std::vector<TransformChoice> choices, const DatasetInfo& info,
             TransformMode mode = TransformMode::training, DoneBy by = DoneBy::host);
  // shape(): (C, H, W) of the model's input. made_shape() and dtype(): output of the host. Samples
  // that are not images pass unchanged.
  Shape shape() const { return out_; }
  Shape made_shape() const { return made_ < items_.size() ? items_[made_].in : out_; }
  DType dtype() const { return dtype_; }
  // Returns the host's edits of an image of shape `sample`. Thread-safe and deterministic. Throws
  // Error(Exit::usage) if the image is too small.
  ImagePlan plan(const Shape& sample, uint64_t seed, int64_t epoch, int64_t index) const;
  // Writes a sample's image to `out`, which has room for made_shape() in dtype(): floats as one
  // image of a batch in `format`, bytes as (C, H, W). Throws Error(Exit::usage) if the sample's
  // shape is not the data set's. Thread-safe.
  void write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index, float* out,
             const MemoryFormat& format = kNCHW) const;
  void write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index, uint8_t* out) const;
  // Returns the levels if they are the only change and the same for every image; else none.
  std::optional<Levels> levels() const;
  // Transforms that are left to the device, which takes the data set's own bytes if all are.
  const Recipe& recipe() const { return recipe_; }
  bool all_left() const { return std::ranges::all_of(items_, &Item::left); }

 private:
  struct Item {
    std::string name;
    Transform transform;
    std::optional<Edit> edit;  // its edit in this mode
    Shape in;                  // shape of its input images; 0: a side that differs between images
    bool left = false;         // the transform is left to the device
  };
  void make_all(const std::vector<TransformChoice>& choices, const DatasetInfo& info);
  void leave_to_device();
  void apply(const Item& item, ImagePlan& image, const RngKey& key) const;
  ImagePlan plan(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index) const;

  TransformMode mode_;
  DType dtype_;
  Shape in_, out_;
  std::vector<Item> items_;
  size_t made_ = 0;  // the host does the first `made_` transforms, except those that are left
  Recipe recipe_;
};

}  // namespace bellows
