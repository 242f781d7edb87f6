// A picture of the images that the model sees, after all transforms.
#pragma once
#include <vector>
#include "core/tensor/tensor.h"

namespace bellows {

// Returns a PNG file with the first 64 images of x, (B, C, H, W), as a square grid with a border of
// a pixel. The smallest value of x is black, the largest white; one channel is gray, of more the
// first three are red, green and blue. Waits for the device.
std::vector<uint8_t> batch_picture(const Tensor& x);

}  // namespace bellows
