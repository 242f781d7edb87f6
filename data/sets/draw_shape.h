// Draws one image of the `shapes` data set.
#pragma once
#include "data/sets/drawn.h"

namespace bellows {

inline constexpr int kShapeSide = 32;

// Writes `pixels`, (3, kShapeSide, kShapeSide); returns the class of the shape.
uint8_t draw_shape(Draw& draw, uint8_t* pixels);

}  // namespace bellows
