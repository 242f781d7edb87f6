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
