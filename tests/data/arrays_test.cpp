// Samples that are not images: padding, counts and divisors of batches, on any number of ranks and
// with any feed.
#include "data/sets/arrays.h"
#include "core/tensor/copy.h"
#include "data/feeds/device_feed.h"
#include "tests/data/files.h"

using namespace bellows;

namespace {

std::vector<int64_t> ints(const Tensor& t) {
  const Tensor host = contiguous(to(Device::cpu, t));
  return {host.ptr<int64_t>(), host.ptr<int64_t>() + host.numel()};
}

// Sample i has i % 4 + 1 tokens, 10 i and the following numbers; its first target is left out.
DatasetPtr stairs(int64_t samples) {
  Sequences all;
  for (int64_t i = 0; i < samples; ++i) {
    std::vector<int64_t> x, y;
    for (int64_t k = 0; k <= i % 4; ++k) x.push_back(10 * i + k), y.push_back(k ? k : -1);
    all.add(x, y);
  }
  const DatasetInfo info{.input = {DType::i64, {4}},
                         .target = {DType::i64, {4}, true},
                         .classes = 5,
                         .unit = "tokens"};
  return std::make_shared<ArrayDataset>(info, all.take(), "stairs");
}

LoaderOptions in_order(int64_t batch) {
  LoaderOptions options;
  options.sampler = {.batch_size = batch, .shuffle = false};
  return options;
}

TEST(Arrays, ArePaddedToTheLongestOfTheBatchAndCounted) {
  Loader loader(stairs(6), {}, in_order(3), 1);
  loader.start(0);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.x.shape(), (Shape{3, 3}));
  EXPECT_THAT(ints(batch.x), ElementsAre(0, 0, 0, 10, 11, 0, 20, 21, 22));
  EXPECT_THAT(ints(batch.y), ElementsAre(-1, -1, -1, -1, 1, -1, -1, 1, 2));
  EXPECT_THAT(ints(batch.lengths), ElementsAre(1, 2, 3));
  EXPECT_EQ(batch.divisor.item(), 3);
  EXPECT_EQ(batch.counts.targets, 3);
  EXPECT_EQ(batch.counts.units, 6);
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.x.shape(), (Shape{3, 4}));
}

TEST(Arrays, ArePaddedToAMultipleOrToBounds) {
  const auto width = [](std::vector<int64_t> pad_to) {
    LoaderOptions options = in_order(1);
    options.batch.pad_to = std::move(pad_to);
    Loader loader(stairs(4), {}, options, 1);
    std::vector<int64_t> widths;
    loader.start(0);
    for (Batch batch; loader.next(batch);) widths.push_back(batch.x.dim(1));
    return widths;
  };
  EXPECT_THAT(width({}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(width({2}), ElementsAre(2, 2, 4, 4));
  EXPECT_THAT(width({3}), ElementsAre(3, 3, 3, 4));  // never beyond the longest
  EXPECT_THAT(width({1, 3}), ElementsAre(1, 3, 3, 4));
}

TEST(Arrays, RefuseAClassThatDoesNotExist) {
  Sequences all;
  all.add(std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 9});
  const DatasetInfo info{
      .input = {DType::i64, {2}}, .target = {DType::i64, {2}, true}, .classes = 5};
  EXPECT_THAT(complaint(Exit::data, [&] { ArrayDataset(info, all.take(), "set"); }),
              HasSubstr("set: sample 0 has class 9, not one of 0 to 4"));
}

// Each feed of a GPU delivers the host's batches; samples stay on the device or are copied.
TEST(Arrays, AreDeliveredOnDeviceAsOnTheHost) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  for (const bool resident : {false, true})
    for (const bool async : {false, true}) {
      LoaderOptions options = in_order(3);
      options.sampler.length_buckets = LengthBuckets::tokens;
      Loader host(stairs(23), {}, options, 1);
      options.feed = {.non_blocking = async, .device_tensors = resident};
      Loader loader(stairs(23), {}, options, 1);
      std::vector<std::string> notes;
      const auto feed = make_feed(Device::cuda, loader, notes);
      EXPECT_THAT(notes, IsEmpty());
      host.start(1);
      feed->start(1);
      Batch a, b;
      while (host.next(a)) {
        ASSERT_TRUE(feed->next(b));
        EXPECT_EQ(ints(a.x), ints(b.x));
        EXPECT_EQ(ints(a.y), ints(b.y));
        EXPECT_EQ(ints(a.lengths), ints(b.lengths));
        EXPECT_EQ(a.divisor.item(), b.divisor.item());
        EXPECT_EQ(a.counts.units, b.counts.units);
      }
      EXPECT_FALSE(feed->next(b));
    }
}

}  // namespace
