// Transforms that depend on the epoch: views of an evaluation, and flips that alternate. The device
// gives the same bits as the host.
#include <gtest/gtest.h>
#include <set>
#include "tests/data/noise.h"

using namespace bellows;

namespace {

// Compares epochs 0 to epochs - 1, which must differ from each other.
void expect_same(Device device, const LoaderOptions& options, const Chain& chain, int64_t epochs) {
  const auto noise = std::make_shared<Noise>(Shape{3, 7, 10}, 11);
  Fed split(device, augmenting(options), noise, chain), host(Device::cpu, options, noise, chain);
  EXPECT_TRUE(split.loader.transforms().all_left());
  std::set<Numbered> seen;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const Numbered shown = split.epoch(epoch);
    EXPECT_EQ(shown, host.epoch(epoch)) << epoch << " on " << device;
    seen.insert(shown);
  }
  EXPECT_EQ(std::ssize(seen), epochs);
}

void expect_same_everywhere(LoaderOptions options, const Chain& chain, int64_t epochs) {
  expect_same(Device::cpu, options, chain, epochs);
  if (device_count(Device::cuda) == 0) return;
  expect_same(Device::cuda, options, chain, epochs);
  options.feed.device_tensors = true;
  expect_same(Device::cuda, options, chain, epochs);
}

}  // namespace

TEST(AugmentViews, OfAnEvaluationAreTheHosts) {
  const LoaderOptions options{.sampler = {.batch_size = 4, .shuffle = false},
                              .batch = {.augment = false, .tta = Tta::mirror_shift}};
  expect_same_everywhere(options, {}, 6);
  expect_same_everywhere(options, {random_crop(5, 2), flip(), cutout(3), normalize()}, 6);
}

TEST(AugmentViews, OfFlipsThatAlternateAreTheHosts) {
  const Chain chain{named("random_flip", {{"alternate", "true"}}), normalize()};
  expect_same_everywhere({.sampler = {.batch_size = 4, .shuffle = false}}, chain, 2);
  const Chain moved{named("random_flip", {{"alternate", "true"}}), random_crop(7, 2), normalize()};
  expect_same_everywhere({.sampler = {.batch_size = 4}}, moved, 4);
}
