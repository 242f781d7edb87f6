// Splitting a list of transforms between host and device, and the images that the host makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "tests/data/files.h"
#include "tests/data/noise.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;

namespace {

// Positions in the list of the edits that the kernel does, and the shape of the images that it
// receives.
struct Left {
  std::vector<int> places;
  Shape made;
  bool operator==(const Left&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Left& left) {
  return out << testing::PrintToString(left.places) << " of " << left.made;
}
Left left_of(const Transforms& transforms) {
  Left left{{}, transforms.made_shape()};
  for (int i = 0; i < transforms.recipe().count; ++i)
    left.places.push_back(transforms.recipe().edits[i].place);
  return left;
}

TransformChoice resize() { return named("resize", {{"size", "16"}}); }
TransformChoice jitter() { return named("color_jitter"); }
TransformChoice resized_crop() { return named("random_resized_crop", {{"size", "12"}}); }

// Changes the image each time, and is no Edit, so only the host can do it.
const AddTransform flicker(
    "test_flicker", "of tests", TransformPhase::levels,
    +[](const NoOptions&, const DatasetInfo&) -> Transform {
      const auto apply = [](ImagePlan& image, TransformMode, const RngKey& key) {
        image.levels.shift[0] += Philox(key).uniform(0);
      };
      return {apply, true};
    });

}  // namespace

TEST(Split, LeavesTheEndOfTheListBehindWhatOnlyTheHostCanDo) {
  const Shape in{3, 20, 30};
  EXPECT_EQ(left_of(split({flip(), random_crop(9, 2), normalize()}, in)), (Left{{0, 1}, in}));
  EXPECT_EQ(left_of(split({resized_crop(), flip(), normalize()}, in)), (Left{{1}, {3, 12, 12}}));
  EXPECT_EQ(left_of(split({resize(), flip(), flip()}, in)), (Left{{1, 2}, {3, 16, 24}}));
  EXPECT_EQ(left_of(split({flip(), jitter(), cutout(3)}, in)), (Left{{2}, in}));
  EXPECT_EQ(left_of(split({resized_crop(), flip(), cutout(3)}, in, TransformMode::evaluation)),
            (Left{{}, {3, 12, 12}}));
  EXPECT_EQ(left_of(split({random_crop(9, 2), flip()}, in, TransformMode::evaluation)),
            (Left{{0}, in}));
  // The host makes images of any size alike.
  const Shape any{3, 0, 0};
  EXPECT_EQ(left_of(split({resize(), center_crop(8), normalize()}, any)), (Left{{}, {3, 8, 8}}));
  EXPECT_EQ(left_of(split({flip(), random_crop(8, 0), flip()}, any)), (Left{{2}, {3, 8, 8}}));
}

// A ImagePlan applies its levels last, wherever they are in the list. So does the device.
TEST(Split, LeavesLevelsFromAnywhere) {
  const DatasetInfo info{.input = {DType::u8, {3, 20, 30}},
                         .classes = 10,
                         .mean = {.25, .5, .75},
                         .std = {.5, .25, .125}};
  const Transforms first({normalize(), resize(), flip()}, info, TransformMode::training,
                         DoneBy::device);
  EXPECT_EQ(first.recipe().levels,
            Transforms({normalize()}, info).plan(info.input.shape, 0, 0, 0).levels);
  EXPECT_TRUE(first.plan(info.input.shape, 1, 0, 0).bytes_only());
}

TEST(Split, RefusesWhatBytesCannotHold) {
  const Shape in{3, 20, 30};
  EXPECT_THAT(complaint(Exit::usage, [&] { split(Chain(9, flip()), in); }),
              HasSubstr("more than 8 transforms for a device"));
  const auto noise = std::make_shared<Noise>(in, 4);
  Fed flickering(Device::cpu, augmenting({}), noise, {TransformChoice("test_flicker")});
  EXPECT_THAT(complaint(Exit::data, [&] { flickering.epoch(0); }),
              HasSubstr("write  toggles: {device_augment: off}"));
}

// The host refuses the same steps: transform_test.cpp has more of them.
TEST(Split, RefusesStepsThatDoNotFit) {
  const auto refusal = [](const Chain& chain) {
    return complaint(Exit::usage, [&] { split(chain, {3, 4, 20}); });
  };
  EXPECT_THAT(
      refusal({center_crop(9)}),
      AllOf(HasSubstr("transform center_crop: the image, [3,4,20], is smaller than the 9x9"),
            HasSubstr("random_crop pads in training only")));
  EXPECT_THAT(refusal({cutout(2), flip()}), HasSubstr("has random_flip after cutout"));
}

// The host's part may cost half a step between bytes, and no more.
TEST(Split, RoundsWhatTheHostHasResized) {
  for (const Chain& chain :
       {Chain{resized_crop(), flip()}, Chain{resize(), center_crop(9), jitter()},
        Chain{resize(), flip(), random_crop(16, 3), flip()}}) {
    const auto noise = std::make_shared<Noise>(Shape{3, 20, 30}, 12);
    Fed split(Device::cpu, augmenting({}), noise, chain), host(Device::cpu, {}, noise, chain);
    const Numbered a = split.epoch(1), b = host.epoch(1);
    ASSERT_EQ(a[0].size(), b[0].size());
    double worst = 0;
    for (size_t i = 0; i < a[0].size(); ++i)
      worst = std::max(worst, std::abs(double(a[0][i]) - double(b[0][i])) * 255);
    EXPECT_LE(worst, .5001);
    EXPECT_GT(worst, .4) << "nothing was rounded";
  }
}
