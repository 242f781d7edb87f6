// Feeds to a GPU: each implementation delivers the batches of the host, at the cost that the
// counters state.
#include "data/feeds/device_feed.h"
#include "core/device/allocator.h"
#include "core/tensor/pinned.h"
#include "data/packed/shard.h"
#include "tests/data/files.h"
#include "tests/data/noise.h"
#include "tests/data/numbers.h"
#include "tests/moved.h"
#include "tests/on_device.h"

using namespace bellows;

namespace {

constexpr Way kWays[] = {{"Plain", false, false, false},
                         {"Pinned", true, false, false},
                         {"AsyncPageable", false, true, false},
                         {"Async", true, true, false},
                         {"Resident", false, false, true}};

Numbered on_the_host(const LoaderOptions& options, int64_t samples, int64_t epoch,
                     int64_t first = 0) {
  Loader loader(std::make_shared<Numbers>(samples), {}, options, 5);
  loader.start(epoch, first);
  return rest_of(loader);
}

class FeedCostsOnDevice : public OnDevice<> {};
class FeedOnDevice : public FeedCostsOnDevice, public testing::WithParamInterface<Way> {};
INSTANTIATE_TEST_SUITE_P(By, FeedOnDevice, testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(FeedOnDevice, DeliversWhatTheLoaderDoesBitForBit) {
  for (const int64_t workers : {0, 2})
    for (const bool randperm : {false, true}) {
      const LoaderOptions options = with(
          GetParam(),
          {.sampler = {.batch_size = 8, .device_randperm = randperm},
           .workers = {.num_workers = workers, .prefetch_factor = 2, .persistent_workers = true}});
      const LoaderOptions plain{.sampler = {.batch_size = 8, .device_randperm = randperm}};
      Fed fed(Device::cuda, options, std::make_shared<Numbers>(103), {});
      EXPECT_EQ(fed.notes, std::vector<std::string>{});
      for (int64_t epoch = 0; epoch < 3; ++epoch)
        EXPECT_EQ(fed.epoch(epoch), on_the_host(plain, 103, epoch));
      EXPECT_EQ(fed.epoch(1, 5), on_the_host(plain, 103, 1, 5)) << "resumed";
      EXPECT_EQ(fed.epoch(1, 13), Numbered{});
      fed.feed.start(2);
      Batch batch;
      EXPECT_TRUE(fed.feed.next(batch));
      EXPECT_EQ(fed.epoch(0), on_the_host(plain, 103, 0)) << "after one that was left";
    }
}

TEST_P(FeedOnDevice, DeliversNhwcWhereTheLoaderDoes) {
  const auto noise = std::make_shared<Noise>(Shape{2, 1, 2}, 31);
  Loader planes(noise, {}, {.sampler = {.batch_size = 8}}, 5);
  planes.start(1);
  Fed fed(Device::cuda,
          with(GetParam(), {.sampler = {.batch_size = 8}, .batch = {.channels_last = true}}), noise,
          {});
  EXPECT_EQ(fed.epoch(1), rest_of(planes));
  fed.feed.start(1);
  Batch batch;
  ASSERT_TRUE(fed.feed.next(batch));
  EXPECT_TRUE(batch.x.is_contiguous(kNHWC)) << batch.x.strides();
}

TEST_P(FeedOnDevice, UsesItsBuffersAgainAndNoneThatSomebodyHolds) {
  const LoaderOptions options = with(GetParam(), {.sampler = {.batch_size = 8}});
  Fed fed(Device::cuda, options, std::make_shared<Numbers>(96), {});
  std::set<const std::byte*> buffers;
  std::vector<float> kept_values;
  Batch kept;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    fed.feed.start(epoch);
    for (Batch batch; fed.feed.next(batch);) {
      buffers.insert(batch.x.bytes());
      if (kept.x.defined()) continue;
      kept = slice(batch, 2, 5);
      const Tensor host = to(Device::cpu, kept.x);
      kept_values.assign(host.ptr<float>(), host.ptr<float>() + host.numel());
    }
  }
  EXPECT_LE(buffers.size(), options.feed.non_blocking ? 3u : 2u) << "one of them is held";
  const Tensor host = to(Device::cpu, kept.x);
  EXPECT_TRUE(std::ranges::equal(host.data<float>(), kept_values));
}

// An error in a batch is thrown when the batch is due, not when it is prefetched.
TEST_P(FeedOnDevice, ThrowsWhatWentWrongWhenItIsDue) {
  auto dataset = std::make_shared<Numbers>(40);
  dataset->on_read = [](int64_t index) {
    if (index == 20) fail(Exit::data, "it is torn");
  };
  const std::string torn = "sample 20 (numbers/20.png): it is torn";
  for (const int64_t workers : {0, 2}) {
    const LoaderOptions options = with(GetParam(), {.sampler = {.batch_size = 8, .shuffle = false},
                                                    .workers = {.num_workers = workers}});
    if (GetParam().device_tensors) {  // reads all samples at once
      EXPECT_EQ(complaint(Exit::data, [&] { Fed(Device::cuda, options, dataset, {}); }),
                torn + "; data.on_damaged=skip leaves it out");
      continue;
    }
    Fed fed(Device::cuda, options, dataset, {});
    fed.feed.start(0);
    Batch batch;
    EXPECT_TRUE(fed.feed.next(batch));
    EXPECT_TRUE(fed.feed.next(batch));
    EXPECT_THAT(complaint(Exit::data, [&] { fed.feed.next(batch); }), HasSubstr(torn));
    EXPECT_EQ(fed.epoch(0, 3).size(), 2u) << "another epoch works";
  }
}

// ---- cost of each implementation

using Costs = std::map<std::string, int64_t>;

// Counts `counters`, and the allocations on the device, in an epoch of 12 batches after two others.
Costs costs(LoaderOptions options, DatasetPtr dataset, const Names& counters) {
  const auto now = [&] {
    Costs values{{"allocations", allocator_stats(Device::cuda).system_calls}};
    for (const std::string& name : counters) values[name] = trace::counter(name).value();
    return values;
  };
  options.sampler.batch_size = 8;
  configure_allocator(Device::cuda, {.caching = true});
  Costs costs;
  {
    Fed fed(Device::cuda, options, std::move(dataset), {});
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      const Costs before = now();
      fed.feed.start(epoch);
      for (Batch batch; fed.feed.next(batch);) {
      }
      costs = now();
      for (const auto& [name, value] : before) costs[name] -= value;
    }
  }
  synchronize(stream_of(Device::cuda));
  configure_allocator(Device::cuda, {.caching = false});
  return costs;
}

TEST_F(FeedCostsOnDevice, AreTheseByCounter) {
  constexpr int64_t kBytes = 96 * (16 + 8), kOrder = 96 * 8;
  const Names names = {
      "data.pinned_copy",          "data.staging_copies",   "copy.async", "copy.overlapped",
      "tensor.created_then_moved", "tensor.device_created", "sync.count", "copy.h2d_bytes"};
  for (const bool randperm : {false, true}) {
    const std::vector<int64_t> wanted[] = {{0, 12, 0, 0, 24, 0, 12, kBytes},
                                           {12, 0, 0, 0, 24, 0, 12, kBytes},
                                           {0, 12, 0, 0, 24, 0, 0, kBytes},
                                           {12, 0, 12, 11, 24, 0, 0, kBytes},
                                           {0, 0, 0, 0, 0, 24, 0, randperm ? 0 : kOrder}};
    for (size_t way = 0; way < std::size(kWays); ++way) {
      const LoaderOptions options{.sampler = {.device_randperm = randperm}};
      const Costs got = costs(with(kWays[way], options), std::make_shared<Numbers>(96), names);
      EXPECT_EQ(got.at("allocations"), 0) << kWays[way];
      for (size_t i = 0; i < names.size(); ++i)
        EXPECT_EQ(got.at(names[i]), wanted[way][i]) << kWays[way] << " " << names[i];
    }
  }
}

TEST_P(FeedOnDevice, WithAugmentationCopiesAQuarterAndNoMoreOftenThanBefore) {
  const auto costs_of = [&](bool augment) {
    LoaderOptions options = with(GetParam(), {.sampler = {.device_randperm = true}});
    options.feed.device_augment = augment;
    return costs(options, std::make_shared<Noise>(Shape{3, 8, 8}, 96),
                 {"copy.h2d_bytes", "tensor.created_then_moved", "sync.count", "alloc.pinned_bytes",
                  "augment.device_images"});
  };
  constexpr int64_t kBytes = 96 * 3 * 8 * 8, kLabels = 96 * 8;
  const bool resident = GetParam().device_tensors;
  Costs host = costs_of(false), device = costs_of(true);
  EXPECT_EQ(std::exchange(host["copy.h2d_bytes"], 0), resident ? 0 : 4 * kBytes + kLabels);
  EXPECT_EQ(std::exchange(device["copy.h2d_bytes"], 0), resident ? 0 : kBytes + kLabels);
  EXPECT_EQ(std::exchange(device["augment.device_images"], 0), 96);
  EXPECT_EQ(host["allocations"] + host["alloc.pinned_bytes"], 0);
  EXPECT_EQ(device, host);
}

// Pinned memory is limited to a few batches, however far ahead the host is.
TEST_F(FeedCostsOnDevice, PinnedMemoryHasABound) {
  const Moved bytes("alloc.pinned_bytes");
  Fed fed(Device::cuda,
          with(kWays[3],
               {.sampler = {.batch_size = 8}, .workers = {.num_workers = 1, .prefetch_factor = 2}}),
          std::make_shared<Numbers>(800), {});
  fed.epoch(0);
  // Two in the queue, one that the worker fills, four that copies read.
  EXPECT_LE(bytes, 7 * 8 * (16 + 8));
  EXPECT_GT(bytes, 0);
}

TEST_F(FeedCostsOnDevice, ADataSetThatCannotStayIsFetchedAndSaysWhy) {
  const LoaderOptions options = with(kWays[4], {.sampler = {.batch_size = 8}});
  Fed on_disk(Device::cuda, options, std::make_shared<Numbers>(20, false), {});
  EXPECT_EQ(on_disk.notes,
            std::vector<std::string>{"device_tensors: not here, the host decodes its samples"});
  EXPECT_EQ(on_disk.epoch(0), on_the_host({.sampler = {.batch_size = 8}}, 20, 0));
  const Fed augmented(Device::cuda, options, std::make_shared<Noise>(Shape{3, 4, 4}, 20),
                      {named("color_jitter")});
  EXPECT_EQ(augmented.notes, std::vector<std::string>{
                                 "device_tensors: not here, its transforms are the host's; write  "
                                 "toggles: {device_augment: on}"});
}

}  // namespace

// ---- samples that stay on the device

TEST_F(FeedCostsOnDevice, PackedPixelsStayOnTheDeviceInTheOrderOfTheHost) {
  const TempFolder folder;
  pack(Numbers(103), Split::train, "", folder.path, {.shard_bytes = 40});
  const auto packed = open_packed(folder);
  LoaderOptions options{.sampler = {.batch_size = 8}};
  Loader host(packed, {}, options, 5);
  options.feed.device_tensors = true;
  const Moved created("tensor.device_created");
  Fed fed(Device::cuda, options, packed, {});
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    host.start(epoch);
    EXPECT_EQ(fed.epoch(epoch), rest_of(host));
  }
  EXPECT_GT(created, 0);
}
