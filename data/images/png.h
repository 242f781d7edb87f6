// Decodes PNG files, with libpng.
#pragma once
#include <span>
#include "data/images/sample.h"

namespace bellows {

// Returns (3, H, W), from the header alone. Throws Error(Exit::data) as decode_png() does.
Shape png_shape(std::span<const uint8_t> file);

// Decodes the whole image. The sample is RGB, interleaved, in `scratch`; its label is 0. Palettes
// and gray are expanded, 16 bits cut to 8, alpha and gamma ignored. Throws Error(Exit::data) for a
// file that is damaged or has more than kMostPixels. Thread-safe.
Sample decode_png(std::span<const uint8_t> file, Scratch& scratch);

}  // namespace bellows
