// The one pass over a picture's pixels: crop, resize, flip, colours and levels, straight into the
// batch.
#pragma once
#include "data/picture.h"

namespace bellows {

// `out` has room for picture.shape(). Thread-safe.
void write_picture(const Picture& picture, const Sample& sample, float* out);

}  // namespace bellows
