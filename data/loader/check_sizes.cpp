#include "data/loader/check_sizes.h"
#include "core/device/parallel.h"
#include "data/images/image_file.h"
#include "data/sets/damaged.h"

namespace bellows {

// Transforms refuse only images that are too small, so a list that takes one pixel takes any size.
static bool take_any_size(const Transforms& transforms, int64_t channels) {
  try {
    transforms.plan({channels, 1, 1}, 0, 0, 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

static Shape shape_at(const Dataset& dataset, int64_t index) {
  if (const auto sample = dataset.encoded(index)) return image_shape(sample->file);
  Scratch scratch;
  return dataset.at(index, scratch).shape;
}

static void check_size(const Loader& loader, int64_t index) {
  Shape shape;
  try {
    shape = shape_at(loader.dataset(), index);
  } catch (const Error& error) {
    if (error.exit != Exit::data) throw;
    if (loader.options().batch.on_damaged != OnDamaged::error) return;
    fail(Exit::data, error.what(), "; data.on_damaged=skip leaves it out");
  }
  loader.transforms().plan(shape, 0, 0, index);
}

void check_sizes(const Loader& loader) {
  const Dataset& dataset = loader.dataset();
  const Shape& sample = dataset.info().sample;
  if (sample.numel() || take_any_size(loader.transforms(), sample[0])) return;
  parallel_for(dataset.size(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) at_sample(dataset, i, [&] { check_size(loader, i); });
  });
}

}  // namespace bellows
