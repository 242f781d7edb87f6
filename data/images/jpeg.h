// JPEG, through libjpeg-turbo.
#pragma once
#include <span>
#include "data/images/sample.h"

namespace bellows {

// (3, H, W), from the header alone. Throws Error(Exit::data) as decode_jpeg() does.
Shape jpeg_shape(std::span<const uint8_t> file);

// Of what is `wanted`, the part is cut out bit for bit; if that becomes less than half as large, it
// is decoded at 1/2, 1/4 or 1/8 of its size, which is not quite the mean of its pixels. Without
// `wanted` all of the picture. Damage behind the part goes unseen.
//
// RGB, interleaved, in `scratch`; grey is expanded, CMYK blended, an orientation in Exif data is
// ignored. Throws Error(Exit::data) for what is damaged, has more than kMostPixels or more scans
// than any encoder writes. Thread-safe.
Sample decode_jpeg(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted = {});

}  // namespace bellows
