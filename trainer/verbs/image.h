// Reads images from untrusted files, for `trainer predict`.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>
#include "core/tensor/shape.h"

namespace bellows {

struct DecodedImage {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  // (height, width, 3)
};

// Returns the bytes of a file. The path "-" is standard input.
std::string read_path(const std::string& path);
// Reads an image file, detected by its content. The path "-" is standard input. Throws Error (exit
// 3) with path and reason. Refuses more than most_pixels() before it allocates them.
DecodedImage read_image(const std::string& path);

// Replaces each folder in `paths` by the images in and below it (kImageSuffixes), sorted. Other
// paths are kept. Warns of files left out. Throws Error (exit 3) for a folder without images.
std::vector<std::string> image_paths(const std::vector<std::string>& paths);
// Calls `use` for each line of a file that is not empty, as soon as it has been read. The path "-"
// is standard input.
void each_line(const std::string& path, const std::function<void(const std::string&)>& use);

// Returns the image as (C, H, W) bytes of that shape, resized like the transform `resize`: bilinear
// and antialiased. RGB becomes gray with the weights of ITU-R BT.601, which keep gray pixels.
std::vector<uint8_t> fitted(const DecodedImage& image, const Shape& shape);

}  // namespace bellows
