// write_image: crop, resize, flip, colors and levels, in one pass over an image's pixels,
// straight into the batch.
#pragma once
#include "data/images/image_plan.h"

namespace bellows {

// Writes image.shape() values to `out`, as one image of a batch in `format`. Thread-safe.
void write_image(const ImagePlan& image, const Sample& sample, float* out,
                 const MemoryFormat& format = kNCHW);
// Writes (C, H, W) bytes, without levels and hole; rounded to nearest. Thread-safe.
void write_bytes(const ImagePlan& image, const Sample& sample, uint8_t* out);
// Returns (H, W, C) bytes, without levels; rounded to nearest. Thread-safe.
std::vector<uint8_t> interleaved_bytes(const ImagePlan& image, const Sample& sample);

}  // namespace bellows
