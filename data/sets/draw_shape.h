// One picture of the `shapes` data set.
#pragma once
#include "data/sets/drawn.h"

namespace bellows {

inline constexpr int kShapeSide = 32;

// (3, kShapeSide, kShapeSide) of pixels; returns the class of the shape on it.
uint8_t draw_shape(Draw& draw, uint8_t* pixels);

}  // namespace bellows
