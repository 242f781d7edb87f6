// The one pass over a picture's pixels: crop, resize, flip, colours and levels, straight into the
// batch.
#pragma once
#include "data/picture.h"

namespace bellows {

// `out` has room for picture.shape(). Thread-safe.
void write_picture(const Picture& picture, const Sample& sample, float* out);
// Before its levels and its hole; rounded to nearest.
void write_bytes(const Picture& picture, const Sample& sample, uint8_t* out);

}  // namespace bellows
