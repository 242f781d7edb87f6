// Order of the samples, and the parts of it that ranks take.
#include "data/loader/sampler.h"
#include <numeric>
#include "tests/data/files.h"
#include "tests/moved.h"

using namespace bellows;
using Indices = std::vector<int64_t>;

static Indices part(const Sampler& sampler, int64_t batch, int64_t epoch) {
  const Tensor samples = sampler.samples(sampler.plan(epoch), batch);
  return {samples.ptr<int64_t>(), samples.ptr<int64_t>() + samples.numel()};
}

static Indices order(int64_t samples, const SamplerOptions& o, int64_t epoch, uint64_t seed = 7) {
  const Sampler sampler(samples, o, seed, {});
  Indices all;
  for (int64_t batch = 0; batch < sampler.batches(); ++batch)
    std::ranges::copy(part(sampler, batch, epoch), std::back_inserter(all));
  EXPECT_EQ(std::ssize(all), sampler.size());
  return all;
}

TEST(Sampler, VisitsEverySampleOnceInAnOrderThatIsAFunctionOfSeedAndEpoch) {
  std::vector<int64_t> all(101);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order(101, {.shuffle = false}, 3), all);
  EXPECT_EQ(order(103, {.batch_size = 8, .drop_last = true}, 0).size(), 96u);
  for (const bool keyed : {false, true}) {
    const Moved made("rng.device_perms");
    const SamplerOptions o{.device_randperm = keyed};
    EXPECT_THAT(order(101, o, 3), testing::UnorderedElementsAreArray(all));
    EXPECT_EQ(order(101, o, 3), order(101, o, 3));
    EXPECT_NE(order(101, o, 3), order(101, o, 4));
    EXPECT_NE(order(101, o, 3), order(101, o, 3, 8));
    EXPECT_EQ(made > 0, keyed);
  }
}

TEST(Sampler, RefusesAnEpochWithoutABatch) {
  EXPECT_THAT(complaint(Exit::data, [] { Sampler(0, {}, 1, {}); }),
              HasSubstr("the data set is empty"));
  EXPECT_THAT(
      complaint(Exit::data, [] { Sampler(63, {.batch_size = 64, .drop_last = true}, 1, {}); }),
      HasSubstr("drop_last leaves nothing: 63 samples do not fill a batch of 64"));
  EXPECT_THAT(complaint(Exit::data,
                        [] {
                          Sampler(63, {.batch_size = 32}, 1,
                                  {.rank = 1, .world = 2, .uneven = Uneven::drop});
                        }),
              HasSubstr("dist.uneven: drop leaves nothing: 63 samples do not fill a batch "
                        "of 32 on 2 ranks"));
}

// 21 samples in batches of 4 on 4 ranks: a round of 16, and 5 samples. drop and join give the
// parameters of one rank: tests/trainer/ranks_test.cpp.
TEST(Sampler, PadRepeatsTheFirstSamplesSoThatAllRanksHaveAsMany) {
  std::vector<Indices> last;
  for (int rank = 0; rank < 4; ++rank) {
    const Sampler sampler(21, {.batch_size = 4, .shuffle = false}, 7,
                          {.rank = rank, .world = 4, .uneven = Uneven::pad});
    EXPECT_EQ(sampler.size(), 6);
    EXPECT_EQ(sampler.weight(1), 1);
    EXPECT_EQ(sampler.joint_size(1), 8);
    last.push_back(part(sampler, 1, 0));
  }
  EXPECT_THAT(last, ElementsAre(Indices{16, 17}, Indices{18, 19}, Indices{20, 0}, Indices{1, 2}));
}
