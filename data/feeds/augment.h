// augment: turns bytes on the device into a batch of float images, in one kernel. It runs the
// transforms that BatchMaker leaves to the device.
#pragma once
#include "core/tensor/kernel.h"
#include "data/images/recipe.h"

namespace bellows {

namespace kernels {
// Writes image b of x as the recipe transforms sample s = samples[b].
//
//   x       (B, C, h, w), any float type and strides
//   y       (B) i64, receives labels[s]; not used if `labels` is undefined
//   pixels  u8, contiguous: all samples, (N, C, H, W); the batch, (B, C, H, W), without labels
//   labels  (N) i64, or undefined
//   samples (B) i64: a part of the epoch's order, Sampler::order()
inline constinit Kernel<void(const Tensor& x, const Tensor& y, const Tensor& pixels,
                             const Tensor& labels, const Tensor& samples, const Recipe& recipe)>
    augment{"augment"};
}  // namespace kernels

// ---- shared by its implementations

// Bytes of an image, (C, H, W).
struct Planes {
  const uint8_t* bytes;
  int64_t channels, height, width;
};

// Writes pixel (y, x) of channel c to out[c * stride]: 0 in the frame's hole, else levels.at() of
// the source byte, which is 0 in the padding.
template <class T>
HD void write_pixel(T* out, int64_t stride, const Planes& in, const Frame& frame,
                    const Levels& levels, int64_t y, int64_t x) {
  const bool hole = frame.hole.contains(y, x);
  const int64_t source = frame.source(y, x, in.width), plane = in.height * in.width;
  for (int c = 0; c < in.channels; ++c) {
    const float byte = source < 0 ? 0 : in.bytes[c * plane + source];
    out[c * stride] = T(hole ? 0 : levels.at(c, byte));
  }
}

}  // namespace bellows
