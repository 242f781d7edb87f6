// A batch out of samples that lie on the device: what the loader's makers do, as one kernel.
#pragma once
#include "core/kernel.h"
#include "data/levels.h"
#include "data/sampler.h"

namespace bellows {

struct Gather {
  int64_t first;  // of the batch, in the rank's order
  RankShare share;
  Levels levels;
};

namespace kernels {
// x (B, C, H, W) f32 and y (B) i64 are those of the samples order[share.at(first + b)]; pixels
// (N, C, H, W) u8, labels (N) i64, order (N) i64.
inline constinit Kernel<void(const Tensor& x, const Tensor& y, const Tensor& pixels,
                             const Tensor& labels, const Tensor& order, const Gather& g)>
    gather_samples{"gather_samples"};
}  // namespace kernels
}  // namespace bellows
