// A picture in a file, in whatever format it is.
#pragma once
#include <span>
#include "data/images/sample.h"

namespace bellows {

inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // of a picture that is decoded

// Of its header, before anything of that size is allocated. Throws Error(Exit::data).
void check_size(const char* format, int64_t height, int64_t width);

// (3, H, W) of a JPEG or PNG, from its header alone. Throws Error(Exit::data) as decode_image()
// does.
Shape image_shape(std::span<const uint8_t> file);

// JPEG or PNG, told by its content: see data/images/jpeg.h and data/images/png.h. Without `wanted`
// all of it. Counted as decode.pixels and, if they are not all that the picture has,
// decode.scaled_images.
Sample decode_image(std::span<const uint8_t> file, Scratch& scratch, const ViewOf& wanted = {});

}  // namespace bellows
