// The one pass over a picture's pixels: crop, resize, flip, colours and levels, straight into the
// batch.
#pragma once
#include "data/images/picture.h"

namespace bellows {

// `out` has room for picture.shape(), and gets it as one image of a batch in that format.
// Thread-safe.
void write_picture(const Picture& picture, const Sample& sample, float* out,
                   const MemoryFormat& format = kNCHW);
// Before its levels and its hole; rounded to nearest.
void write_bytes(const Picture& picture, const Sample& sample, uint8_t* out);
// Before its levels, as (H, W, C); rounded to nearest.
std::vector<uint8_t> interleaved_bytes(const Picture& picture, const Sample& sample);

}  // namespace bellows
