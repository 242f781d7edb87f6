// The bucket plan: which gradients share a flat buffer, and thus a collective. A pure function, so
// that `trainer plan` can predict what the reducer will send.
#pragma once
#include <cstdint>
#include <span>
#include <vector>
#include "core/base/dtype.h"
#include "dist/base/options.h"

namespace bellows {

struct GradientSize {
  int64_t numel;
  DType dtype;
};

// A flat buffer of one dtype. Gradients begin at multiples of 64 bytes; the gaps stay zero and
// travel with them.
struct BucketPlan {
  DType dtype;
  int64_t numel = 0;                   // gaps included
  std::vector<size_t> gradients = {};  // indices into the planned list, ascending
  std::vector<int64_t> offsets = {};   // offset of each gradient, in elements
  int64_t bytes() const { return numel * static_cast<int64_t>(size_of(dtype)); }
};

// Packs gradients into buckets, in the order in which they become ready. A bucket holds at most
// options.bucket_mb, unless it is a single larger gradient. The first bucket also ends when it has
// reached options.first_bucket_mb. Without options.bucketed, each gradient has a bucket of its own.
// Buckets are listed in the order in which their last gradient becomes ready.
std::vector<BucketPlan> plan_buckets(std::span<const GradientSize> gradients,
                                     const DistOptions& options);

}  // namespace bellows
