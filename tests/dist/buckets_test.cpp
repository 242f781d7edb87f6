// Bucket plans for all small lists of gradients, and for the sizes of real models.
#include "dist/buckets.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include "tests/models/build.h"

using namespace bellows;
using testing::ElementsAre;

namespace {

constexpr double kMiB = 1 << 20;

DistOptions capacity(double first_bytes, double bytes) {
  DistOptions options;
  options.bucketed = true;
  options.first_bucket_mb = first_bytes / kMiB;
  options.bucket_mb = bytes / kMiB;
  return options;
}

// Returns the members of each bucket.
std::vector<std::vector<size_t>> planned(const std::vector<GradientSize>& gradients,
                                         const DistOptions& options) {
  std::vector<std::vector<size_t>> all;
  for (const BucketPlan& b : plan_buckets(gradients, options)) all.push_back(b.gradients);
  return all;
}

// One line for each rule that the plan breaks.
std::string complaints(const std::vector<GradientSize>& gradients, const DistOptions& options) {
  std::string text;
  std::set<size_t> seen;
  size_t last = 0;
  bool first = true;
  for (const BucketPlan& b : plan_buckets(gradients, options)) {
    int64_t end = 0, before_last = 0;
    for (size_t k = 0; k < b.gradients.size(); ++k) {
      const auto [numel, dtype] = gradients.at(b.gradients[k]);
      const int64_t offset = b.offsets.at(k), size = size_of(dtype);
      if (!seen.insert(b.gradients[k]).second) text += "a gradient is in two places\n";
      if (k > 0 && b.gradients[k] < b.gradients[k - 1]) text += "the order has changed\n";
      if (dtype != b.dtype) text += "a bucket of two dtypes\n";
      if (offset < end) text += "gradients overlap\n";
      if (offset * size % 64 != 0) text += "a gradient is not aligned\n";
      before_last = offset * size;
      end = offset + numel;
    }
    const bool alone = b.gradients.size() == 1;
    if (end > b.numel) text += "a gradient exceeds its bucket\n";
    if (b.bytes() > options.bucket_mb * kMiB && !alone) text += "a bucket is too large\n";
    if (!options.bucketed && !alone) text += "a bucket, though there should be none\n";
    if (first && before_last >= options.first_bucket_mb * kMiB && !alone)
      text += "the first bucket did not end in time\n";
    if (!first && b.gradients.back() < last)
      text += "a bucket leaves before one that fills first\n";
    last = b.gradients.back();
    first = false;
  }
  if (seen.size() != gradients.size()) text += "a gradient is in no bucket\n";
  return text;
}

}  // namespace

// All lists of up to 5 gradients of these sizes and dtypes, under all these capacities.
TEST(Buckets, KeepEveryRuleForEverySmallList) {
  const GradientSize kinds[] = {{1, DType::f32},  {16, DType::f32},  {17, DType::f32},
                                {90, DType::f32}, {40, DType::bf16}, {33, DType::bf16}};
  for (const DistOptions& given :
       {capacity(64, 64), capacity(64, 256), capacity(100, 200), capacity(1000, 256)})
    for (const bool bucketed : {false, true}) {
      DistOptions options = given;
      options.bucketed = bucketed;
      for (int n = 0, lists = 1; n <= 5; ++n, lists *= std::size(kinds))
        for (int list = 0; list < lists; ++list) {
          std::vector<GradientSize> gradients;
          for (int i = 0, rest = list; i < n; ++i, rest /= std::size(kinds))
            gradients.push_back(kinds[rest % std::size(kinds)]);
          ASSERT_EQ(complaints(gradients, options), "") << n << ", " << list;
        }
    }
}

TEST(Buckets, EndEarlyForTheFirstAndAtTheCapacityForTheOthers) {
  const GradientSize one{16, DType::f32}, low{32, DType::bf16}, large{100, DType::f32};  // 64 bytes
  const std::vector<GradientSize> seven(7, one);
  EXPECT_THAT(planned(seven, capacity(64, 192)),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3), ElementsAre(4, 5, 6)));
  EXPECT_THAT(planned(seven, capacity(128, 256)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4, 5), ElementsAre(6)));
  // A gradient that exceeds the capacity is alone.
  EXPECT_THAT(planned({one, one, large, one}, capacity(64, 256)),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
  // Dtypes stay apart, and buckets leave in the order in which they fill.
  EXPECT_THAT(planned({low, one, one, low, one}, capacity(128, 128)),
              ElementsAre(ElementsAre(1, 2), ElementsAre(0, 3), ElementsAre(4)));
}

TEST(Buckets, OfResNet50AreFiveInPlaceOf161Gradients) {
  const ModulePtr model = build({{"name", "resnet50"}}, {.sample = {3, 64, 64}, .classes = 1000});
  std::vector<GradientSize> sizes;
  for (const NamedTensor& p : model->parameters())
    sizes.insert(sizes.begin(), {p.tensor.numel(), p.tensor.dtype()});
  DistOptions options;
  EXPECT_EQ(plan_buckets(sizes, options).size(), 161u);
  options.bucketed = true;
  EXPECT_EQ(complaints(sizes, options), "");
  EXPECT_EQ(plan_buckets(sizes, options).size(), 5u);
}
