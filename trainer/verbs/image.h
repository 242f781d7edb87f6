// Images from files that nobody can vouch for: for `trainer predict`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace bellows {

struct Image {
  int64_t height = 0, width = 0, channels = 0;  // 1: grey, 3: RGB
  std::vector<uint8_t> pixels;                  // (height, width, channels)
};

// PNG, JPEG, PGM or PPM, told by its content; the path "-" is standard input. Throws Error, exit 3,
// with path and reason; refuses more than 2^26 pixels before it allocates them.
Image read_image(const std::string& path);

// Each folder among `paths` replaced by the images in it and below, by their names (.png, .jpg,
// .jpeg, .pgm, .ppm), sorted; the rest as it is. Throws Error, exit 3, for a folder without any.
std::vector<std::string> image_paths(const std::vector<std::string>& paths);
// The lines of a file; the path "-" is standard input. Empty lines count for nothing.
std::vector<std::string> read_lines(const std::string& path);

// As (channels, height, width): colours to grey and back as in ITU-R BT.601, each new pixel the
// mean of the area that it covers.
std::vector<uint8_t> fitted(const Image& image, int64_t channels, int64_t height, int64_t width);

}  // namespace bellows
