// Reads images from untrusted files, for `trainer predict`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>
#include "core/tensor/shape.h"

namespace bellows {

struct DecodedImage {
  int64_t height = 0, width = 0, channels = 0;  // 1: gray, 3: RGB
  std::vector<uint8_t> pixels;                  // (height, width, channels)
};

// Reads a PNG, JPEG, PGM or PPM file, detected by its content. The path "-" is standard input.
// Throws Error (exit 3) with path and reason. Refuses more than 2^26 pixels before it allocates
// them.
DecodedImage read_image(const std::string& path);

// Replaces each folder in `paths` by the images in and below it (.png, .jpg, .jpeg, .pgm, .ppm),
// sorted. Other paths are kept. Warns of links that lead nowhere. Throws Error (exit 3) for a
// folder without images.
std::vector<std::string> image_paths(const std::vector<std::string>& paths);
// Returns the lines of a file without empty ones. The path "-" is standard input.
std::vector<std::string> read_lines(const std::string& path);

// Returns the image as (C, H, W) bytes of that shape, resized like the transform `resize`: bilinear
// and antialiased. RGB becomes gray with the weights of ITU-R BT.601; gray becomes RGB by
// repetition.
std::vector<uint8_t> fitted(const DecodedImage& image, const Shape& shape);

}  // namespace bellows
