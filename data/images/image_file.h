// Decodes image files, JPEG or PNG.
#pragma once
#include <span>
#include "data/images/sample.h"

namespace bellows {

inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // largest image that is decoded

// Checks the size in a file's header, before anything of that size is allocated: from 1 to
// kMostPixels pixels. `format` is for the message. Throws Error(Exit::data).
void check_size(const char* format, int64_t height, int64_t width);

// Returns (3, H, W) of a JPEG or PNG file, from its header alone. Throws Error(Exit::data) as
// decode_image() does. Thread-safe.
Shape image_shape(std::span<const uint8_t> file);

// Decodes a JPEG or PNG file, detected by its content, into `scratch`; the label is 0. `wanted`
// selects the view that is needed, without it the whole image: see data/images/jpeg.h and
// data/images/png.h for this and for errors. Thread-safe. Counters: decode.pixels and, for images
// of which fewer pixels were decoded than they have, decode.scaled_images.
Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted = {});

}  // namespace bellows
