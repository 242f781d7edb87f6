// JPEG files of pictures that the program makes.
#pragma once
#include <cstdint>
#include <vector>

namespace bellows {

// Of (height, width, 3) bytes, RGB; 4:2:0 as cameras write it. Thread-safe.
std::vector<uint8_t> encode_jpeg(const uint8_t* pixels, int64_t height, int64_t width, int quality);

}  // namespace bellows
