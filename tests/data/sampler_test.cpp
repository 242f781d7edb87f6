#include "data/loader/sampler.h"
#include <gmock/gmock.h>
#include <numeric>
#include "core/base/trace.h"
#include "tests/data/files.h"

using namespace bellows;

static std::vector<int64_t> order(int64_t samples, const SamplerOptions& o, int64_t epoch,
                                  RankShare share = {}, uint64_t seed = 7) {
  const Sampler sampler(samples, o, seed, share);
  const Tensor order = sampler.order(epoch);
  EXPECT_EQ(order.shape(), Shape{sampler.size()});
  return {order.ptr<int64_t>(), order.ptr<int64_t>() + sampler.size()};
}

TEST(Sampler, VisitsEverySampleOnceInAnOrderThatIsAFunctionOfSeedAndEpoch) {
  std::vector<int64_t> all(101);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order(101, {.shuffle = false}, 3), all);
  for (const bool keyed : {false, true}) {
    const SamplerOptions o{.device_randperm = keyed};
    EXPECT_THAT(order(101, o, 3), testing::UnorderedElementsAreArray(all));
    EXPECT_EQ(order(101, o, 3), order(101, o, 3));
    EXPECT_NE(order(101, o, 3), order(101, o, 4));
    EXPECT_NE(order(101, o, 3), order(101, o, 3, {}, 8));
  }
}

TEST(Sampler, CountsTheDevicePermutationsOnlyWhereTheyAreMade) {
  trace::Counter& made = trace::counter("rng.device_perms");
  const int64_t before = made.value();
  order(10, {}, 0);
  EXPECT_EQ(made.value(), before);
  order(10, {.device_randperm = true}, 0);
  EXPECT_EQ(made.value(), before + 1);
}

// Step s of all ranks together is step s of one rank with the larger batch.
TEST(Sampler, DealsTheStepsOfOneRankOutToMany) {
  const SamplerOptions one{.batch_size = 12}, each{.batch_size = 4};
  const auto whole = order(96, one, 1);
  for (int64_t step = 0; step < 8; ++step) {
    std::vector<int64_t> together;
    for (int rank = 0; rank < 3; ++rank) {
      const auto mine = order(96, each, 1, {rank, 3});
      together.insert(together.end(), mine.begin() + step * 4, mine.begin() + step * 4 + 4);
    }
    EXPECT_THAT(together, testing::UnorderedElementsAreArray(whole.begin() + step * 12,
                                                             whole.begin() + step * 12 + 12));
  }
}

TEST(Sampler, GivesEveryRankTheSameCountByRepeatingTheFirstOrDroppingTheLast) {
  for (int rank = 0; rank < 4; ++rank) {
    const Sampler padded(21, {.batch_size = 4, .shuffle = false}, 7, {rank, 4});
    EXPECT_EQ(padded.size(), 6);
    EXPECT_EQ(padded.batches(), 2);
    EXPECT_EQ(order(21, {.batch_size = 4, .shuffle = false}, 0, {rank, 4})[5], (20 + rank) % 21);
    const Sampler dropped(21, {.batch_size = 4, .drop_last = true}, 7, {rank, 4});
    EXPECT_EQ(dropped.size(), 4);
    EXPECT_EQ(dropped.batches(), 1);
  }
  EXPECT_EQ(order(1, {.batch_size = 4}, 0, {3, 4}), std::vector<int64_t>{0});
}

TEST(Sampler, RefusesAnEpochWithoutABatch) {
  EXPECT_THAT(complaint(Exit::data, [] { Sampler(0, {}, 1, {}); }),
              testing::HasSubstr("the data set is empty"));
  EXPECT_THAT(
      complaint(Exit::data, [] { Sampler(63, {.batch_size = 64, .drop_last = true}, 1, {}); }),
      testing::HasSubstr("63 samples do not fill a batch of 64"));
}

// ---- quasi-random

// Pages of different sizes, one of them a single sample.
static const std::vector<int64_t> kPages = {0, 7, 8, 20, 33, 40, 55, 70, 81, 90};

static SamplerOptions quasi_random(int64_t window) {
  return {.order = Order::quasi_random, .window = window};
}
static std::vector<int64_t> paged_order(const SamplerOptions& o, int64_t epoch,
                                        RankShare share = {}, uint64_t seed = 7) {
  const Sampler sampler(101, o, seed, share, kPages);
  const Tensor order = sampler.order(epoch);
  return {order.ptr<int64_t>(), order.ptr<int64_t>() + sampler.size()};
}
static int64_t page_of(int64_t sample) {
  return std::ranges::upper_bound(kPages, sample) - kPages.begin() - 1;
}

TEST(QuasiRandom, VisitsEverySampleOnceInAnOrderThatIsAFunctionOfSeedAndEpoch) {
  std::vector<int64_t> all(101);
  std::iota(all.begin(), all.end(), 0);
  for (const bool keyed : {false, true}) {
    SamplerOptions o = quasi_random(3);
    o.device_randperm = keyed;
    EXPECT_THAT(paged_order(o, 3), testing::UnorderedElementsAreArray(all));
    EXPECT_EQ(paged_order(o, 3), paged_order(o, 3));
    EXPECT_NE(paged_order(o, 3), paged_order(o, 4));
    EXPECT_NE(paged_order(o, 3), paged_order(o, 3, {}, 8));
  }
  SamplerOptions in_order = quasi_random(3);
  in_order.shuffle = false;
  EXPECT_EQ(paged_order(in_order, 3), all);
}

// A page is open from its first sample to its last.
TEST(QuasiRandom, IsInsideOfAWindowOfPages) {
  for (int64_t window = 1; window <= 10; ++window) {
    std::map<int64_t, int64_t> left;
    for (int64_t sample = 0; sample < 101; ++sample) ++left[page_of(sample)];
    const auto whole = left;
    size_t most = 0;
    for (const int64_t sample : paged_order(quasi_random(window), 5)) {
      --left[page_of(sample)];
      size_t open = 0;
      for (const auto& [page, samples] : left) open += samples > 0 && samples < whole.at(page);
      most = std::max(most, open);
    }
    EXPECT_LE(most, size_t(window));
    // The page of one sample is never open.
    EXPECT_GE(most + 1, std::min<size_t>(window, 9)) << "they are mixed";
  }
}

TEST(QuasiRandom, ShufflesPagesAndSamplesInsideOfThem) {
  const auto order = paged_order(quasi_random(1), 0);
  std::vector<int64_t> pages;
  for (const int64_t sample : order)
    if (pages.empty() || pages.back() != page_of(sample)) pages.push_back(page_of(sample));
  EXPECT_EQ(pages.size(), kPages.size());
  EXPECT_FALSE(std::ranges::is_sorted(pages));
  EXPECT_GT(std::ranges::count_if(order,
                                  [&](const int64_t& sample) {
                                    return &sample != order.data() && sample < (&sample)[-1] &&
                                           page_of(sample) == page_of((&sample)[-1]);
                                  }),
            20);
}

TEST(QuasiRandom, IsDealtOutToRanksAsAnyOrderIs) {
  const auto whole = paged_order(quasi_random(2), 1);
  for (int rank = 0; rank < 3; ++rank) {
    const auto mine = paged_order(quasi_random(2), 1, {rank, 3});
    for (size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i], whole[(3 * i + rank) % 101]);
  }
}

TEST(QuasiRandom, WithoutPagesIsRandomAndCountsAllTheSame) {
  trace::Counter& counted = trace::counter("data.quasi_random_orders");
  const int64_t before = counted.value();
  EXPECT_EQ(order(101, quasi_random(2), 1), order(101, {}, 1));
  EXPECT_EQ(counted.value(), before + 1);
}
