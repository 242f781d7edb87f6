// Batches of a feed as vectors, for comparison.
#pragma once
#include "core/tensor/copy.h"
#include "data/loader/loader.h"

namespace bellows {

// Returns the remaining batches, each as x, rounded to `dtype`, followed by y. Releases each one
// before it requests the next, as the training loop does.
using Numbered = std::vector<std::vector<float>>;
inline Numbered rest_of(Feed& feed, DType dtype = DType::f32) {
  Numbered batches;
  for (Batch batch; feed.next(batch);) {
    const Tensor x = contiguous(to(Device::cpu, batch.x)), y = to(Device::cpu, batch.y);
    const Tensor values = cast(cast(x, dtype), DType::f32);
    batches.emplace_back(values.data<float>().begin(), values.data<float>().end());
    batches.back().insert(batches.back().end(), y.ptr<int64_t>(), y.ptr<int64_t>() + y.numel());
  }
  return batches;
}

}  // namespace bellows
