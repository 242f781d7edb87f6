// length_buckets: each sample once per epoch, batches of like length, ranks of like work.
#include <algorithm>
#include <numeric>
#include "core/base/philox.h"
#include "data/loader/sampler.h"
#include "tests/matchers.h"

using namespace bellows;

namespace {

constexpr int64_t kSamples = 1003;

// Lengths from 1 to 99; short ones are more frequent.
std::vector<int64_t> lengths_of(int64_t samples) {
  const Philox rng({.seed = 3});
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < samples; ++i) {
    const double u = rng.uniform(uint64_t(i));
    lengths.push_back(1 + int64_t(98 * u * u));
  }
  return lengths;
}

struct Batches {
  std::vector<std::vector<int64_t>> samples;  // of each batch of each rank
  std::vector<int64_t> tokens, padded;        // of each of them
  int64_t share_of_padding() const {          // in percent
    const auto sum = [](const auto& v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); };
    return 100 - 100 * sum(tokens) / sum(padded);
  }
};

Batches batches_of(LengthBuckets how, int64_t epoch, int world = 1, Uneven uneven = Uneven::join,
                   int64_t samples = kSamples) {
  const std::vector<int64_t> lengths = lengths_of(samples);
  Batches all;
  std::vector<Sampler> ranks;
  for (int rank = 0; rank < world; ++rank)
    ranks.emplace_back(samples, SamplerOptions{.batch_size = 16, .length_buckets = how}, 7,
                       RankShare{rank, world, uneven}, lengths);
  for (int64_t batch = 0; batch < ranks[0].batches(); ++batch)
    for (const Sampler& rank : ranks) {
      const EpochPlan plan = rank.plan(epoch);
      const Tensor mine = rank.samples(plan, batch);
      if (rank.weight(batch) == 0) continue;
      auto& now = all.samples.emplace_back(mine.ptr<int64_t>(), mine.ptr<int64_t>() + mine.numel());
      int64_t tokens = 0, longest = 0;
      for (const int64_t i : now) tokens += lengths[i], longest = std::max(longest, lengths[i]);
      all.tokens.push_back(tokens);
      all.padded.push_back(longest * std::ssize(now));
      EXPECT_LE(std::ssize(now), rank.largest());
    }
  return all;
}

constexpr LengthBuckets kAll[] = {LengthBuckets::off, LengthBuckets::sorted, LengthBuckets::buckets,
                                  LengthBuckets::tokens};

TEST(LengthBuckets, HaveEachSampleOnceInAnEpochOnAnyNumberOfRanks) {
  std::vector<int64_t> each(kSamples);
  std::iota(each.begin(), each.end(), 0);
  for (const LengthBuckets how : kAll)
    for (const int world : {1, 2, 3})
      for (const int64_t epoch : {0, 1}) {
        std::vector<int64_t> seen;
        for (const auto& batch : batches_of(how, epoch, world).samples)
          seen.insert(seen.end(), batch.begin(), batch.end());
        EXPECT_THAT(seen, testing::UnorderedElementsAreArray(each));
      }
}

TEST(LengthBuckets, HaveLittlePadding) {
  EXPECT_GT(batches_of(LengthBuckets::off, 0).share_of_padding(), 40);
  for (const LengthBuckets how : {kAll[1], kAll[2], kAll[3]})
    EXPECT_LT(batches_of(how, 0).share_of_padding(), 8);
}

TEST(LengthBuckets, OfTokensGiveEachBatchOfEachRankAboutAsMany) {
  const auto ratio = [](LengthBuckets how) {
    const Batches all = batches_of(how, 0, 2);
    return double(std::ranges::max(all.tokens)) / double(std::ranges::min(all.tokens));
  };
  EXPECT_GT(ratio(LengthBuckets::buckets), 10);
  EXPECT_LT(ratio(LengthBuckets::tokens), 1.4);
  const Batches all = batches_of(LengthBuckets::tokens, 0, 2);
  for (size_t i = 0; i < all.tokens.size(); i += 2)  // the two ranks of a round
    EXPECT_NEAR(double(all.tokens[i]), double(all.tokens[i + 1]), 0.25 * double(all.tokens[i]));
}

TEST(LengthBuckets, ReorderRoundsAndEqualLengthsInEachEpochButSortedDoesNot) {
  for (const LengthBuckets how : {LengthBuckets::buckets, LengthBuckets::tokens}) {
    EXPECT_EQ(batches_of(how, 1).samples, batches_of(how, 1).samples);
    EXPECT_NE(batches_of(how, 0).samples, batches_of(how, 1).samples);
    EXPECT_FALSE(std::ranges::is_sorted(batches_of(how, 0).padded));
  }
  EXPECT_EQ(batches_of(LengthBuckets::sorted, 0).samples,
            batches_of(LengthBuckets::sorted, 1).samples);
  const Batches sorted = batches_of(LengthBuckets::sorted, 0);
  EXPECT_LE(sorted.tokens[0], sorted.tokens[1]);
}

TEST(LengthBuckets, OfFewerSamplesThanABatchStillHaveOne) {
  EXPECT_EQ(batches_of(LengthBuckets::tokens, 0, 1, Uneven::pad, 5).samples.size(), 1u);
  EXPECT_EQ(batches_of(LengthBuckets::tokens, 0, 3, Uneven::pad, 5).samples.size(), 3u);
}

}  // namespace
