// Images that grow from epoch to epoch equal those of a plain resize to each epoch's size, however
// they are read, processed and copied.
#include <gmock/gmock.h>
#include <set>
#include "core/base/trace.h"
#include "data/packed/pack.h"
#include "data/packed/packed.h"
#include "tests/data/files.h"
#include "tests/data/noise.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

const Shape kPicture{3, 32, 48};

// 16, 20, 24, 28 and 32 rows in epochs 2 to 6, counted from 1.
Texts growing() {
  return {{"from", "16"}, {"step", "4"}, {"first_epoch", "2"}, {"last_epoch", "6"}};
}
TransformChoice grow(Texts options = growing()) { return named("progressive_resize", options); }
TransformChoice resize(int64_t size) { return named("resize", {{"size", cat(size)}}); }
TransformChoice resized_crop() { return named("random_resized_crop", {{"size", "32"}}); }

// Rows of the images in each of the first `epochs` epochs.
std::vector<int64_t> sizes(const Texts& options, int epochs, const Shape& in = kPicture) {
  const Transforms transforms({grow(options)}, info_of(in));
  std::vector<int64_t> sizes;
  for (int epoch = 0; epoch < epochs; ++epoch) sizes.push_back(transforms.shape(epoch)[1]);
  return sizes;
}

std::string refusal(const Chain& chain, const Shape& in = kPicture) {
  return complaint(Exit::usage, [&] { Transforms(chain, info_of(in)); });
}

std::vector<Shape> shapes_of(Feed& feed, int64_t epoch) {
  std::vector<Shape> shapes;
  feed.start(epoch);
  for (Batch batch; feed.next(batch);) shapes.push_back(batch.x.shape());
  return shapes;
}

}  // namespace

TEST(ProgressiveResize, GrowsInWholeStepsBetweenItsEpochs) {
  EXPECT_EQ(sizes(growing(), 8), (std::vector<int64_t>{16, 16, 20, 24, 28, 32, 32, 32}));
  const Texts ffcv{{"from", "160"}, {"to", "192"}, {"first_epoch", "3"}, {"last_epoch", "7"}};
  EXPECT_EQ(sizes(ffcv, 8, {3, 224, 224}),
            (std::vector<int64_t>{160, 160, 160, 160, 160, 192, 192, 192}));
  const Texts jump{{"from", "24"}, {"step", "8"}, {"first_epoch", "3"}, {"last_epoch", "3"}};
  EXPECT_EQ(sizes(jump, 4), (std::vector<int64_t>{24, 24, 32, 32}));
}

TEST(ProgressiveResize, KeepsProportionsAndEvaluationKeepsItsSize) {
  const Chain chain{grow({{"from", "16"}, {"to", "24"}, {"step", "4"}}), flip()};
  const Transforms training(chain, info_of(kPicture));
  EXPECT_EQ(training.shape(0), (Shape{3, 16, 24}));
  EXPECT_EQ(training.shape(), (Shape{3, 24, 36}));
  const Transforms evaluation(chain, info_of(kPicture), TransformMode::evaluation, DoneBy::host,
                              Tta::mirror);
  for (const int64_t view : {0, 1}) {
    EXPECT_EQ(evaluation.shape(view), kPicture);
    EXPECT_EQ(evaluation.plan(kPicture, 1, view, 0).shape(), kPicture);
  }
}

TEST(ProgressiveResize, GivesThePicturesOfAPlainResizeBitForBit) {
  const auto noise = std::make_shared<Noise>(kPicture, 11);
  Fed growing(Device::cpu, {.sampler = {.batch_size = 4}}, noise, {resized_crop(), grow(), flip()});
  for (int64_t epoch = 0; epoch < 7; ++epoch) {
    const int64_t size = growing.loader.transforms().shape(epoch)[1];
    Fed plain(Device::cpu, {.sampler = {.batch_size = 4}}, noise,
              {resized_crop(), resize(size), flip()});
    EXPECT_EQ(growing.epoch(epoch), plain.epoch(epoch)) << epoch;
  }
  const Numbered whole = growing.epoch(3);
  EXPECT_EQ(growing.epoch(3, 1), Numbered(whole.begin() + 1, whole.end())) << "resumed";
}

TEST(ProgressiveResize, WhereAllEpochsHaveOneSizeItIsAsWithoutIt) {
  const auto noise = std::make_shared<Noise>(kPicture, 11);
  const Texts constant{{"from", "32"}, {"step", "1"}, {"last_epoch", "2"}};
  Fed with(Device::cpu, {.sampler = {.batch_size = 4}}, noise,
           {grow(constant), normalize(), flip()});
  Fed without(Device::cpu, {.sampler = {.batch_size = 4}}, noise,
              {resize(32), normalize(), flip()});
  for (const int64_t epoch : {0, 1, 5}) EXPECT_EQ(with.epoch(epoch), without.epoch(epoch));
  EXPECT_TRUE(Transforms({grow(constant)}, info_of(kPicture)).levels());
  EXPECT_FALSE(Transforms({grow()}, info_of(kPicture)).levels());
}

TEST(ProgressiveResize, IsTheSameForAnyWorkersFormatAndShards) {
  const auto noise = std::make_shared<Noise>(kPicture, 11);
  const TempFolder folder;
  pack(*noise, Split::train, "noise", folder.path);
  const auto packed = std::make_shared<Packed>(PackedOptions{.folder = folder.path}, Split::train);
  const Chain chain{grow(), flip()};
  Fed alone(Device::cpu, {.sampler = {.batch_size = 4}}, noise, chain);
  for (const DatasetPtr& set : {DatasetPtr(noise), DatasetPtr(packed)})
    for (const bool channels_last : {false, true}) {
      Fed fed(Device::cpu,
              {.sampler = {.batch_size = 4},
               .batch = {.channels_last = channels_last},
               .workers = {.num_workers = 2, .prefetch_factor = 2, .persistent_workers = true}},
              set, chain);
      for (const int64_t epoch : {0, 2, 4, 6, 1}) {
        EXPECT_EQ(fed.epoch(epoch), alone.epoch(epoch)) << epoch;
        const int64_t h = alone.loader.transforms().shape(epoch)[1];
        EXPECT_THAT(shapes_of(fed.feed, epoch),
                    testing::ElementsAre(Shape{4, 3, h, h / 2 * 3}, Shape{4, 3, h, h / 2 * 3},
                                         Shape{3, 3, h, h / 2 * 3}));
      }
    }
}

TEST(ProgressiveResize, FillsBuffersThatTheLargestFits) {
  Loader loader(std::make_shared<Noise>(kPicture, 12), {grow()}, {.sampler = {.batch_size = 4}}, 5);
  std::set<const std::byte*> buffers;
  for (int64_t epoch = 0; epoch < 7; ++epoch) {
    loader.start(epoch);
    for (Batch batch; loader.next(batch);) {
      buffers.insert(batch.x.storage()->bytes());
      EXPECT_TRUE(batch.x.is_contiguous());
    }
  }
  EXPECT_EQ(buffers.size(), 1u);
}

// A smaller image needs less of a JPEG.
TEST(ProgressiveResize, LooksAtFewerPixelsWhereTheyAreScaled) {
  const Transforms transforms({grow()}, info_of(kPicture));
  EXPECT_EQ(transforms.plan(kPicture, 1, 0, 0).view().step, 2);
  EXPECT_EQ(transforms.plan(kPicture, 1, 6, 0).view().step, 1);
}

TEST(ProgressiveResize, RefusesWhatCannotBe) {
  EXPECT_THAT(refusal({grow({{"from", "40"}})}), HasSubstr("from 40 to 32 by steps of 32"));
  EXPECT_THAT(refusal({grow({{"from", "16"}, {"to", "40"}, {"step", "8"}})}),
              HasSubstr("it grows to at most the size of the images, in whole steps"));
  EXPECT_THAT(refusal({grow({{"from", "16"}, {"step", "5"}})}), HasSubstr("in whole steps"));
  EXPECT_THAT(refusal({grow({{"first_epoch", "3"}, {"last_epoch", "2"}})}),
              HasSubstr("the last epoch, 2, comes before the first, 3"));
  EXPECT_THAT(refusal({grow()}, {3, 0, 0}),
              HasSubstr("put it after random_resized_crop or center_crop"));
  EXPECT_THAT(refusal({grow(), flip(), center_crop(12)}),
              HasSubstr("transform center_crop: it fixes the size of images"));
}

// Padding cannot be resized. The error comes when the list is read, not with the first sample.
TEST(ProgressiveResize, RefusesPaddingBeforeIt) {
  const std::string wanted =
      "transform progressive_resize: the image has padding already, which cannot be resized or "
      "padded again: put the transform that pads after those that resize";
  const Shape square{3, 32, 32};
  EXPECT_EQ(refusal({random_crop(32, 4), grow()}), wanted);
  EXPECT_EQ(refusal({random_crop(32, 1, "reflect"), flip(), grow()}), wanted);
  EXPECT_THAT(refusal({random_crop(24, 4), resize(24)}), HasSubstr("transform resize: the image"));
  EXPECT_THAT(refusal({random_crop(32, 4), resized_crop()}), HasSubstr("random_resized_crop: the"));
  EXPECT_THAT(refusal({random_crop(32, 4), flip(), random_crop(32, 2)}),
              HasSubstr("transform random_crop: the images have padding already"));
  Transforms({random_crop(32, 0), grow()}, info_of(square));
  Transforms({random_crop(32, 4), grow({{"from", "32"}})}, info_of(square));
  Transforms({random_crop(32, 4), flip(), center_crop(20), cutout(5)}, info_of(kPicture));
  Transforms({random_crop(32, 4), resize(24)}, info_of(kPicture), TransformMode::evaluation);
}

// ---- with the other transforms on a device

namespace {

// The host rounds to bytes, which costs up to half a step.
void expect_near(const Numbered& a, const Numbered& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (size_t j = 0; j < a[i].size(); ++j) ASSERT_NEAR(a[i][j], b[i][j], .5001 / 255);
  }
}

void expect_grown_there(Device device, const LoaderOptions& options) {
  const auto noise = std::make_shared<Noise>(kPicture, 11);
  const Chain chain{resized_crop(), grow(), flip(), cutout(5)};
  Fed host(Device::cpu, {.sampler = {.batch_size = 4}}, noise, chain);
  Fed split(device, augmenting(options), noise, chain);
  EXPECT_EQ(split.loader.transforms().recipe().count, 2);
  const trace::Counter& images = trace::counter("augment.device_images");
  for (const int64_t epoch : {0, 3, 6}) {
    const int64_t before = images.value();
    expect_near(split.epoch(epoch), host.epoch(epoch));
    EXPECT_EQ(images.value(), before + 11);
    EXPECT_EQ(shapes_of(split.feed, epoch), shapes_of(host.feed, epoch));
  }
}

}  // namespace

TEST(ProgressiveResize, LeavesTheRestToADevice) {
  expect_grown_there(Device::cpu, {.sampler = {.batch_size = 4}});
  const Chain grown{grow(), flip()};
  EXPECT_EQ(split(grown, kPicture).made_shape(0), (Shape{3, 16, 24}));
  Loader loader(std::make_shared<Noise>(kPicture, 11), grown,
                augmenting({.sampler = {.batch_size = 4}, .feed = {.device_tensors = true}}), 5);
  EXPECT_EQ(why_not_resident(Device::cpu, loader), "only the host can do some of its transforms");
}

TEST(ProgressiveResizeOnDevice, ArrivesAsItWasMadeByEachWay) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  const auto noise = std::make_shared<Noise>(kPicture, 11);
  const Chain chain{resized_crop(), grow(), flip()};
  for (const bool non_blocking : {false, true}) {
    const LoaderOptions options{.sampler = {.batch_size = 4},
                                .batch = {.pin_memory = true},
                                .feed = {.non_blocking = non_blocking}};
    expect_grown_there(Device::cuda, options);
    Fed moved(Device::cuda, options, noise, chain),
        host(Device::cpu, {.sampler = {.batch_size = 4}}, noise, chain);
    for (const int64_t epoch : {0, 3, 6, 1}) EXPECT_EQ(moved.epoch(epoch), host.epoch(epoch));
  }
}
