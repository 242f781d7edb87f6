// write_picture: crop, resize, flip, colors and levels, in one pass over an image's pixels,
// straight into the batch.
#pragma once
#include "data/images/picture.h"

namespace bellows {

// Writes picture.shape() values to `out`, as one image of a batch in `format`. Thread-safe.
void write_picture(const Picture& picture, const Sample& sample, float* out,
                   const MemoryFormat& format = kNCHW);
// Writes (C, H, W) bytes, without levels and hole; rounded to nearest. Thread-safe.
void write_bytes(const Picture& picture, const Sample& sample, uint8_t* out);
// Returns (H, W, C) bytes, without levels; rounded to nearest. Thread-safe.
std::vector<uint8_t> interleaved_bytes(const Picture& picture, const Sample& sample);

}  // namespace bellows
