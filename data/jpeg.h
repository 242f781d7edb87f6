// JPEG, through libjpeg-turbo.
#pragma once
#include <span>
#include "data/dataset.h"

namespace bellows {

// RGB, interleaved, in `scratch`; grey is expanded, an orientation in Exif data is ignored. Throws
// Error(Exit::data) for what is damaged, has four colours or more than kMostPixels. Thread-safe.
Sample decode_jpeg(std::span<const uint8_t> file, Scratch& scratch);

}  // namespace bellows
