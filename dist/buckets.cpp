#include "dist/buckets.h"
#include <algorithm>
#include <map>
#include "core/base/round.h"

namespace bellows {

static constexpr int64_t kAlignment = 64;  // bytes: of a cache line, and of tensor memory
static constexpr double kMiB = 1 << 20;

std::vector<BucketPlan> plan_buckets(std::span<const GradientSize> gradients,
                                     const DistOptions& options) {
  std::vector<BucketPlan> closed;
  std::map<DType, BucketPlan> open;
  const auto close = [&](DType dtype) {
    closed.push_back(std::move(open.extract(dtype).mapped()));
  };
  for (size_t i = 0; i < gradients.size(); ++i) {
    const int64_t numel = gradients[i].numel;
    const DType dtype = gradients[i].dtype;
    const auto size = static_cast<int64_t>(size_of(dtype));
    const int64_t padded = round_up(std::max<int64_t>(1, numel) * size, kAlignment) / size;
    const auto bytes_with = [&](int64_t more) {
      return double((open.at(dtype).numel + more) * size);
    };
    if (open.contains(dtype) && bytes_with(padded) > options.bucket_mb * kMiB) close(dtype);
    BucketPlan& bucket = open.try_emplace(dtype, BucketPlan{dtype}).first->second;
    bucket.gradients.push_back(i);
    bucket.offsets.push_back(bucket.numel);
    bucket.numel += padded;
    const bool early = closed.empty() && bytes_with(0) >= options.first_bucket_mb * kMiB;
    if (early || !options.bucketed) close(dtype);
  }
  while (!open.empty()) close(open.begin()->first);
  std::ranges::sort(closed, {}, [](const BucketPlan& b) { return b.gradients.back(); });
  return closed;
}

}  // namespace bellows
