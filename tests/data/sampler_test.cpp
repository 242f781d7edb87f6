#include "data/loader/sampler.h"
#include <gmock/gmock.h>
#include <numeric>
#include "tests/data/files.h"
#include "tests/moved.h"

using namespace bellows;

static std::vector<int64_t> order(int64_t samples, const SamplerOptions& o, int64_t epoch,
                                  RankShare share = {}, uint64_t seed = 7) {
  const Sampler sampler(samples, o, seed, share);
  std::vector<int64_t> all;
  const EpochPlan plan = sampler.plan(epoch);
  for (int64_t batch = 0; batch < sampler.batches(); ++batch) {
    const Tensor samples = sampler.samples(plan, batch);
    all.insert(all.end(), samples.ptr<int64_t>(), samples.ptr<int64_t>() + samples.numel());
  }
  EXPECT_EQ(std::ssize(all), sampler.size());
  return all;
}

TEST(Sampler, VisitsEverySampleOnceInAnOrderThatIsAFunctionOfSeedAndEpoch) {
  std::vector<int64_t> all(101);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order(101, {.shuffle = false}, 3), all);
  for (const bool keyed : {false, true}) {
    const Moved made("rng.device_perms");
    const SamplerOptions o{.device_randperm = keyed};
    EXPECT_THAT(order(101, o, 3), testing::UnorderedElementsAreArray(all));
    EXPECT_EQ(order(101, o, 3), order(101, o, 3));
    EXPECT_NE(order(101, o, 3), order(101, o, 4));
    EXPECT_NE(order(101, o, 3), order(101, o, 3, {}, 8));
    EXPECT_EQ(made > 0, keyed);
  }
}

TEST(Sampler, RefusesAnEpochWithoutABatch) {
  EXPECT_THAT(complaint(Exit::data, [] { Sampler(0, {}, 1, {}); }),
              testing::HasSubstr("the data set is empty"));
  EXPECT_THAT(
      complaint(Exit::data, [] { Sampler(63, {.batch_size = 64, .drop_last = true}, 1, {}); }),
      testing::HasSubstr("drop_last leaves nothing: 63 samples do not fill a batch of 64"));
  EXPECT_THAT(complaint(Exit::data,
                        [] {
                          Sampler(63, {.batch_size = 32}, 1,
                                  {.rank = 1, .world = 2, .uneven = Uneven::drop});
                        }),
              testing::HasSubstr("dist.uneven: drop leaves nothing: 63 samples do not fill a batch "
                                 "of 32 on 2 ranks"));
}
