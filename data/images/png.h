// PNG, through libpng.
#pragma once
#include <span>
#include "data/images/sample.h"

namespace bellows {

// (3, H, W), from the header alone. Throws Error(Exit::data) as decode_png() does.
Shape png_shape(std::span<const uint8_t> file);

// RGB, interleaved, in `scratch`; palettes and grey are expanded, 16 bits cut to 8, alpha and gamma
// ignored. Throws Error(Exit::data) for what is damaged or has more than kMostPixels. Thread-safe.
Sample decode_png(std::span<const uint8_t> file, Scratch& scratch);

}  // namespace bellows
