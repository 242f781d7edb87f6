// A batch of numbers out of bytes that lie on the device: what the loader's makers do, or are to
// leave to it, as one kernel.
#pragma once
#include "core/tensor/kernel.h"
#include "data/images/recipe.h"
#include "data/loader/sampler.h"

namespace bellows {

struct Augment {
  int64_t first = 0;  // of the batch, in the rank's order
  RankShare share = {};
  Recipe recipe = {};
};

namespace kernels {
// x (B, C, h, w), of any float type and strides: what the recipe makes of order[share.at(first +
// b)] in an order of samples, (N) i64. The pixels (N, C, H, W) u8 and labels (N) i64 are those of
// all samples, and y (B) i64 gets theirs; or there are no labels, and the pixels are those of the
// batch.
inline constinit Kernel<void(const Tensor& x, const Tensor& y, const Tensor& pixels,
                             const Tensor& labels, const Tensor& order, const Augment& a)>
    augment{"augment"};
}  // namespace kernels

// ---- what its implementations share

// (C, H, W) bytes of one sample.
struct Planes {
  const uint8_t* bytes;
  int64_t channels, height, width;
};

// Pixel (y, x) of all channels, which are `stride` apart.
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
