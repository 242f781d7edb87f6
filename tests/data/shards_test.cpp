// Shards: the parts of the samples that ranks take.
#include <gmock/gmock.h>
#include <numeric>
#include "data/loader/sampler.h"

using namespace bellows;
using testing::ElementsAre;

using Indices = std::vector<int64_t>;

static Sampler sampler_of(int64_t samples, int64_t batch, RankShare share, bool drop_last = false) {
  return {samples, {.batch_size = batch, .shuffle = false, .drop_last = drop_last}, 7, share};
}

// Returns the samples of a batch.
static Indices part(const Sampler& sampler, int64_t batch, int64_t epoch = 0) {
  const EpochPlan plan = sampler.plan(epoch);
  const Tensor samples = sampler.samples(plan, batch);
  return {samples.ptr<int64_t>(), samples.ptr<int64_t>() + samples.numel()};
}

TEST(Shards, RanksInOrderHaveTheSamplesOfOneRankWithTheJointBatch) {
  for (const int world : {1, 2, 3, 4}) {
    const Sampler whole(96, {.batch_size = 4 * world}, 7, {});
    for (int64_t step = 0; step < whole.batches(); ++step) {
      Indices together;
      for (int rank = 0; rank < world; ++rank) {
        const Sampler mine(96, {.batch_size = 4}, 7, {.rank = rank, .world = world});
        EXPECT_EQ(mine.batches(), whole.batches());
        std::ranges::copy(part(mine, step, 1), std::back_inserter(together));
      }
      EXPECT_EQ(together, part(whole, step, 1));
    }
  }
}

// 21 samples in batches of 4 on 4 ranks: a round of 16, and 5 samples.
TEST(Shards, PadRepeatsTheFirstSamplesSoThatAllRanksHaveAsMany) {
  std::vector<Indices> last;
  for (int rank = 0; rank < 4; ++rank) {
    const Sampler sampler = sampler_of(21, 4, {.rank = rank, .world = 4, .uneven = Uneven::pad});
    EXPECT_EQ(sampler.size(), 6);
    EXPECT_EQ(sampler.weight(1), 1);
    EXPECT_EQ(sampler.joint_size(1), 8);
    last.push_back(part(sampler, 1));
  }
  EXPECT_THAT(last, ElementsAre(Indices{16, 17}, Indices{18, 19}, Indices{20, 0}, Indices{1, 2}));
}

TEST(Shards, JoinTakesEachSampleOnceAndWeighsTheRanksByTheirSamples) {
  for (const int64_t samples : {21, 18, 16, 3}) {
    Indices seen;
    double weights = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const Sampler sampler =
          sampler_of(samples, 4, {.rank = rank, .world = 4, .uneven = Uneven::join});
      EXPECT_EQ(sampler.batches(), (samples + 15) / 16);
      EXPECT_EQ(sampler.joint_size(), samples);
      const double weight = sampler.weight(sampler.batches() - 1);
      weights += weight;
      for (int64_t b = 0; b < sampler.batches(); ++b) {
        const Indices now = part(sampler, b);
        EXPECT_GE(now.size(), 1u);
        if (sampler.weight(b) == 0) continue;
        EXPECT_DOUBLE_EQ(sampler.weight(b) * double(sampler.joint_size(b)), 4 * double(now.size()));
        std::ranges::copy(now, std::back_inserter(seen));
      }
    }
    Indices all(samples);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_THAT(seen, testing::UnorderedElementsAreArray(all));
    EXPECT_DOUBLE_EQ(weights, 4);
  }
}

TEST(Shards, DropLeavesTheLastRoundOutAsDropLastDoes) {
  for (int rank = 0; rank < 4; ++rank) {
    const Sampler dropped = sampler_of(21, 4, {.rank = rank, .world = 4, .uneven = Uneven::drop});
    const Sampler last = sampler_of(21, 4, {.rank = rank, .world = 4}, true);
    for (const Sampler* sampler : {&dropped, &last}) {
      EXPECT_EQ(sampler->size(), 4);
      EXPECT_EQ(sampler->batches(), 1);
      EXPECT_EQ(sampler->joint_size(), 16);
    }
  }
  EXPECT_EQ(sampler_of(21, 16, {.uneven = Uneven::drop}).joint_size(), 16);  // as one rank does
}
