// Transforms on the device give the same bits as those on the host.
#include "data/feeds/augment.h"
#include "tests/data/files.h"
#include "tests/data/noise.h"
#include "tests/on_device.h"
#include "tests/twins.h"

using namespace bellows;

namespace {

// Chains for images of 7 x 10 that are left to the device as a whole.
const std::map<std::string, Chain>& chains() {
  static const std::map<std::string, Chain> all = {
      {"nothing but normalize", {}},
      {"no levels of its own", {flip()}},
      {"crop", {random_crop(5, 0), normalize()}},
      {"crop with a border", {random_crop(7, 2), normalize()}},
      {"crop of little but border", {random_crop(13, 6), normalize()}},
      {"crop with a mirrored border", {random_crop(9, 4, "reflect"), normalize()}},
      {"crop with a border wider than the picture", {random_crop(31, 24, "reflect"), normalize()}},
      {"center, an odd rest and one of 3", {center_crop(4), normalize()}},
      {"flip", {flip(), normalize()}},
      {"cutout", {cutout(4), normalize()}},
      {"cutout larger than the picture", {cutout(40), normalize()}},
      {"all", {normalize(), random_crop(7, 3), flip(), center_crop(5), cutout(3)}},
      {"flips around crops",
       {flip(), random_crop(6, 0), flip(), random_crop(8, 2, "reflect"), flip()}},
      {"the border cropped again", {random_crop(8, 5), flip(), random_crop(3, 0), flip()}},
  };
  return all;
}

// Uses 23 images, so the last batch is smaller.
void expect_same(Device device, const LoaderOptions& options, const Shape& shape,
                 const Chain& chain) {
  const auto noise = std::make_shared<Noise>(shape, 23);
  Fed split(device, augmenting(options), noise, chain);
  EXPECT_EQ(split.notes, std::vector<std::string>{});
  EXPECT_TRUE(split.loader.transforms().all_left());
  Fed host(Device::cpu,
           {.sampler = {.batch_size = options.sampler.batch_size},
            .batch = {.augment = options.batch.augment}},
           noise, chain);
  for (const int64_t epoch : {0, 3}) EXPECT_EQ(split.epoch(epoch), host.epoch(epoch));
  EXPECT_EQ(split.epoch(1, 2), host.epoch(1, 2)) << "resumed";
}

// The device writes directly in the model's dtype and format; values equal those that are cast
// later.
void expect_as_wanted(Device device, LoaderOptions options, const Chain& chain) {
  const auto noise = std::make_shared<Noise>(Shape{3, 7, 10}, 23);
  const Shape made = Transforms(chain, noise->info()).shape();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(cat(dtype, channels_last ? ", NHWC" : ""));
      options.batch.channels_last = channels_last;
      Fed host(Device::cpu,
               {.sampler = {.batch_size = options.sampler.batch_size},
                .batch = {.channels_last = channels_last}},
               noise, chain);
      Fed split(device, augmenting(options), noise, chain, {}, dtype);
      for (const int64_t epoch : {0, 1}) {
        host.feed.start(epoch), split.feed.start(epoch);
        EXPECT_EQ(rest_of(split.feed, dtype), rest_of(host.feed, dtype));
      }
      split.feed.start(2);
      Batch batch;
      while (split.feed.next(batch)) {
        EXPECT_EQ(batch.x.dtype(), dtype);
        EXPECT_EQ(batch.x.shape(), with_rows(batch.size(), made));
        EXPECT_TRUE(batch.x.is_contiguous(options.batch.format()));
      }
    }
}

}  // namespace

TEST(Augment, DoesWhatTheHostWouldHaveDoneBitForBit) {
  for (const auto& [name, chain] : chains())
    for (const int64_t channels : {1, 3}) {
      SCOPED_TRACE(cat(name, ", ", channels, " channels"));
      expect_same(Device::cpu, {.sampler = {.batch_size = 8}}, {channels, 7, 10}, chain);
    }
  expect_same(Device::cpu, {.sampler = {.batch_size = 8}, .batch = {.augment = false}}, {3, 7, 10},
              chains().at("all"));
}

TEST(Augment, IsTheSameForAnyWorkersAndRanks) {
  const auto noise = std::make_shared<Noise>(Shape{3, 7, 10}, 23);
  const Chain& chain = chains().at("all");
  for (const int64_t workers : {0, 2})
    for (int rank = 0; rank < 2; ++rank) {
      const LoaderOptions options{.sampler = {.batch_size = 4},
                                  .workers = {.num_workers = workers, .prefetch_factor = 2}};
      Fed split(Device::cpu, augmenting(options), noise, chain, {rank, 2});
      Fed host(Device::cpu, {.sampler = {.batch_size = 4}}, noise, chain, {rank, 2});
      EXPECT_EQ(split.epoch(2), host.epoch(2));
    }
}

TEST(Augment, WritesWhatTheModelWantsAsItWouldBeCast) {
  expect_as_wanted(Device::cpu, {.sampler = {.batch_size = 8}}, chains().at("all"));
  expect_as_wanted(
      Device::cpu,
      {.sampler = {.batch_size = 8}, .workers = {.num_workers = 2, .prefetch_factor = 1}},
      chains().at("crop with a border"));
}

// The host's part may cost half a step between bytes, and no more.
TEST(Augment, RoundsWhatTheHostHasResized) {
  const TransformChoice resize = named("resize", {{"size", "16"}}),
                        crop = named("random_resized_crop", {{"size", "12"}});
  for (const Chain& chain :
       {Chain{crop, flip()}, Chain{resize, center_crop(9), named("color_jitter")},
        Chain{resize, flip(), random_crop(16, 3), flip()}}) {
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

TEST(Augment, RefusesMoreTransformsThanTheDeviceDoes) {
  const auto noise = std::make_shared<Noise>(Shape{3, 20, 30}, 4);
  EXPECT_THAT(complaint(Exit::usage,
                        [&] {
                          Transforms(Chain(9, flip()), noise->info(), TransformMode::training,
                                     DoneBy::device);
                        }),
              HasSubstr("more than 8 transforms for a device"));
}

// ---- on a device

namespace {

class AugmentOnDevice : public OnDevice<testing::TestWithParam<Way>> {
 protected:
  static LoaderOptions options(bool augment = true) {
    return with(GetParam(), {.sampler = {.batch_size = 8}, .batch = {.augment = augment}});
  }
};
INSTANTIATE_TEST_SUITE_P(By, AugmentOnDevice,
                         testing::Values(Way{"Plain", false, false, false},
                                         Way{"Pinned", true, false, false},
                                         Way{"Async", true, true, false},
                                         Way{"Resident", false, false, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(AugmentOnDevice, DoesWhatTheHostWouldHaveDoneBitForBit) {
  const RunCount runs;
  for (const auto& [name, chain] : chains())
    for (const int64_t channels : {1, 3}) {
      SCOPED_TRACE(cat(name, ", ", channels, " channels"));
      expect_same(Device::cuda, options(), {channels, 7, 10}, chain);
    }
  expect_same(Device::cuda, options(false), {3, 7, 10}, chains().at("all"));
  expect_as_wanted(Device::cuda, options(), chains().at("all"));
  // More pixels than a block writes.
  expect_same(Device::cuda, options(), {1, 53, 57}, {random_crop(51, 4), flip(), normalize()});
  expect_same(Device::cpu, options(), {3, 7, 10}, chains().at("all"));
  EXPECT_EQ(without_twin(runs, "data"), "");
}

}  // namespace
