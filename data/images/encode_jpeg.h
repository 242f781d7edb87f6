// Encodes images as JPEG.
#pragma once
#include <cstdint>
#include <vector>

namespace bellows {

// Returns the JPEG file of an RGB image, (height, width, 3) bytes. Chroma is subsampled 4:2:0, as
// cameras do. `quality` is libjpeg's, 1 to 100. Throws Error(Exit::data). Thread-safe.
std::vector<uint8_t> encode_jpeg(const uint8_t* pixels, int64_t height, int64_t width, int quality);

}  // namespace bellows
