// Images of the data sets `shapes` and `shapes_jpeg`.
#pragma once
#include "data/sets/drawn.h"

namespace bellows {

inline constexpr int kShapeSide = 32;

// Writes one image to `pixels`, (3, kShapeSide, kShapeSide); returns the class of the shape.
uint8_t draw_shape(Draw& draw, uint8_t* pixels);
// Describes a data set of shapes whose images have that side; 0: they differ in size.
DatasetInfo shapes_info(int64_t side);

}  // namespace bellows
