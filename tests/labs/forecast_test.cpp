// Forecasts against values computed manually, at the limits, and as the network changes.
#include "labs/plan/forecast.h"
#include <gtest/gtest.h>
#include <limits>

using namespace bellows;
using enum ReduceAlgorithm;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMiB = 1 << 20;

Network flat(double latency_s, double bytes_per_s, ReduceAlgorithm algorithm = ring) {
  return {.between = {latency_s, bytes_per_s}, .inside = {}, .algorithm = algorithm};
}

// Four f32 gradients of 1 MiB, ready at 2, 3, 5 and 6 s of an update of 7 s.
ComputeProfile four() {
  ComputeProfile profile{.gradients = {}, .step_s = 7};
  for (const double ready : {2, 3, 5, 6})
    profile.gradients.push_back({{1 << 18, DType::f32}, ready});
  return profile;
}

DistOptions buckets_of(double mb) {
  DistOptions options;
  options.bucketed = options.overlap = true;
  options.bucket_mb = options.first_bucket_mb = mb;
  return options;
}

}  // namespace

TEST(Forecast, RingHasTwoTimesNMinusOneStepsOfANthOfTheBytes) {
  EXPECT_DOUBLE_EQ(all_reduce_s(800, 2, flat(1, 100)), 2 * (1 + 800 / 2 / 100.));
  EXPECT_DOUBLE_EQ(all_reduce_s(800, 8, flat(1, 100)), 14 * (1 + 800 / 8 / 100.));
}

TEST(Forecast, TreeHasTwoTimesLogNStepsAndSendsAllBytesTwice) {
  EXPECT_DOUBLE_EQ(all_reduce_s(800, 8, flat(1, 100, tree)), 2 * 3 + 2 * 8);
  EXPECT_DOUBLE_EQ(all_reduce_s(800, 9, flat(1, 100, tree)), 2 * 4 + 2 * 8);
  EXPECT_DOUBLE_EQ(all_reduce_s(800, 1024, flat(1, 100, faster)), 2 * 10 + 2 * 8);
  EXPECT_DOUBLE_EQ(all_reduce_s(800, 2, flat(1, 100, faster)), 2 + 8);
}

// 4 machines of 8 ranks: a ring crosses machines in 2 * 3 of its 62 hops, a tree in 2 * 2.
TEST(Forecast, HopsInsideAMachineHaveItsLatencyAndTheSlowestLinkItsBandwidth) {
  Network network{.between = {10, 100}, .inside = {1, 1000}, .ranks_per_node = 8};
  network.algorithm = ring;
  EXPECT_DOUBLE_EQ(all_reduce_s(3200, 32, network), 6 * 10 + 56 * 1 + 2 * 31 / 32. * 32);
  EXPECT_DOUBLE_EQ(all_reduce_s(3200, 8, network), 14 * 1 + 2 * 7 / 8. * 3.2);
  network.algorithm = tree;
  EXPECT_DOUBLE_EQ(all_reduce_s(3200, 32, network), 4 * 10 + 14 * 1 + 2 * 32);
}

// A link of 1 MiB/s between two ranks: a collective of b MiB takes b s. Each bucket waits for its
// gradient and for the bucket before.
TEST(Forecast, BucketsLeaveWhenTheyAreReadyAndTheOneBeforeHasEnded) {
  const Forecast each = forecast(four(), buckets_of(1), 2, flat(0.25, kMiB));
  const double begins[] = {2, 3.5, 5, 6.5};  // each takes 0.5 s of latency and 1 s
  ASSERT_EQ(each.buckets.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(each.buckets[i].begin_s, begins[i]) << i;
    EXPECT_DOUBLE_EQ(each.buckets[i].end_s, begins[i] + 1.5) << i;
  }
  EXPECT_DOUBLE_EQ(each.communication_s, 6);
  EXPECT_DOUBLE_EQ(each.exposed_s, 2);
  EXPECT_DOUBLE_EQ(each.step_s, 9);
  EXPECT_TRUE(each.queued());

  const Forecast pairs = forecast(four(), buckets_of(2), 2, flat(0.25, kMiB));
  ASSERT_EQ(pairs.buckets.size(), 2u);
  EXPECT_DOUBLE_EQ(pairs.buckets[0].begin_s, 3);
  EXPECT_DOUBLE_EQ(pairs.buckets[1].begin_s, 6);
  EXPECT_DOUBLE_EQ(pairs.step_s, 7 + 2.5);
  EXPECT_FALSE(pairs.queued());
}

TEST(Forecast, WithoutOverlapAllBucketsLeaveAfterBackward) {
  DistOptions options = buckets_of(1);
  options.overlap = false;
  const Forecast late = forecast(four(), options, 2, flat(0.25, kMiB));
  EXPECT_DOUBLE_EQ(late.exposed_s, late.communication_s);
  EXPECT_DOUBLE_EQ(late.step_s, 7 + 6);
}

TEST(Forecast, CompressionHalvesTheBytesAndNotTheLatency) {
  DistOptions options = buckets_of(1);
  options.compress = true;
  EXPECT_DOUBLE_EQ(forecast(four(), options, 2, flat(0.25, kMiB)).communication_s, 4);
  ComputeProfile halves = four();  // of 0.5 MiB
  for (GradientTime& gradient : halves.gradients) gradient.size.dtype = DType::bf16;
  EXPECT_DOUBLE_EQ(forecast(halves, buckets_of(0.5), 2, flat(0.25, kMiB)).communication_s, 4);
}

TEST(Forecast, OneRankAndAnInfinitelyFastNetworkCostNothing) {
  const Forecast alone = forecast(four(), buckets_of(1), 1, flat(1, 1));
  EXPECT_EQ(alone.step_s, 7);
  EXPECT_EQ(alone.communication_s, 0);
  EXPECT_FALSE(alone.queued());
  for (const int64_t ranks : {2, 64, 4096})
    for (const ReduceAlgorithm algorithm : {ring, tree, faster})
      EXPECT_EQ(forecast(four(), buckets_of(1), ranks, flat(0, kInfinity, algorithm)).step_s, 7);
}

// A latency of L per collective: one bucket ends at 6 + 2 L + 4, of 1 MiB each at 2 + 4 (2 L + 1).
TEST(Forecast, BestBucketsGrowWithTheLatency) {
  EXPECT_EQ(best_bucket_mb(four(), buckets_of(1), 2, flat(0.001, kMiB)), 1);
  EXPECT_EQ(best_bucket_mb(four(), buckets_of(1), 2, flat(3, kMiB)), 4);
  double before = 0;
  for (const double latency : {0.001, 0.1, 0.5, 1., 3.}) {
    const double best = best_bucket_mb(four(), buckets_of(1), 2, flat(latency, kMiB));
    EXPECT_GE(best, before) << latency;
    before = best;
  }
}

// At 10 MiB/s a bucket takes 0.02 (n - 1) + 0.2 (n - 1) / n seconds, and the last one is ready a
// second after the one before: 0.995 s for 41 ranks, 1.015 s for 42.
TEST(Forecast, OverlapEndsWhereBucketsQueue) {
  EXPECT_EQ(overlap_ends(four(), buckets_of(1), 100, flat(0.01, kMiB)), 2);
  EXPECT_EQ(overlap_ends(four(), buckets_of(1), 100, flat(0.01, 10 * kMiB)), 42);
  EXPECT_EQ(overlap_ends(four(), buckets_of(1), 41, flat(0.01, 10 * kMiB)), 0);
}
