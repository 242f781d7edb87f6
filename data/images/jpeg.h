// Decodes JPEG files, with libjpeg-turbo.
#pragma once
#include <span>
#include "data/images/sample.h"

namespace bellows {

// Returns (3, H, W), from the header alone. Throws Error(Exit::data) as decode_jpeg() does.
Shape jpeg_shape(std::span<const uint8_t> file);

// Decodes at least the part of the image that `wanted` selects, with the same bits as in the whole
// image; without `wanted`, the whole image. If the view's step is 2 or more, decodes at 1/2, 1/4 or
// 1/8 of the size, which is not exactly the mean of the pixels. Damage after the part is not
// noticed.
//
// The sample is RGB, interleaved, in `scratch`; its label is 0. Gray is expanded, CMYK converted,
// an Exif orientation ignored. Throws Error(Exit::data) for a file that is damaged, or has more
// than kMostPixels or more scans than any encoder writes. Thread-safe.
Sample decode_jpeg(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted = {});

}  // namespace bellows
