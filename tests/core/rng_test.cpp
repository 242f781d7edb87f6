// Random numbers as functions of their key: known answers, moments, valid and uniform permutations.
#include "core/tensor/rng.h"
#include <set>
#include "tests/matchers.h"
#include "tests/refusal.h"

using namespace bellows;

// From kat_vectors of the Random123 distribution (philox4x32, 10 rounds).
TEST(Philox, GivesThePublishedAnswers) {
  const auto rounds = [](Philox::Four counter, uint32_t k0, uint32_t k1) {
    const Philox::Four y = Philox::rounds(counter, k0, k1);
    return std::vector(y.v, y.v + 4);
  };
  EXPECT_THAT(rounds({{0, 0, 0, 0}}, 0, 0),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const uint32_t ones = 0xffffffff;
  EXPECT_THAT(rounds({{ones, ones, ones, ones}}, ones, ones),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(rounds({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, EveryPartOfTheKeyMatters) {
  const RngKey key{.seed = 1, .purpose = Purpose::init, .site = 2, .step = 3};
  std::vector<RngKey> keys(9, key);
  keys[1].seed = 2;
  keys[2].seed += uint64_t(1) << 32;
  keys[3].purpose = Purpose::dropout;
  keys[4].site = 3;
  keys[5].site += uint64_t(1) << 63;
  keys[6].step = 4;
  keys[7].step += uint64_t(1) << 32;
  keys[8].seed = 0;
  std::set<uint32_t> firsts;
  for (const RngKey& k : keys) firsts.insert(Philox(k).bits(0));
  EXPECT_EQ(firsts.size(), keys.size());
}

static std::pair<double, double> moments(const Tensor& t) {
  double sum = 0, squares = 0;
  for (const float x : t.data<float>()) sum += x, squares += double(x) * x;
  const double mean = sum / double(t.numel());
  return {mean, squares / double(t.numel()) - mean * mean};
}

TEST(Rng, UniformAndNormalHaveTheirMoments) {
  const Tensor t({200'000}, DType::f32);
  fill_uniform(t, -2, 4, {.seed = 3});
  EXPECT_GE(*std::ranges::min_element(t.data<float>()), -2);
  EXPECT_LT(*std::ranges::max_element(t.data<float>()), 4);
  EXPECT_NEAR(moments(t).first, 1, 0.02);
  EXPECT_NEAR(moments(t).second, 3, 0.03);  // 6^2 / 12
  fill_normal(t, -1, 0.5, {.seed = 3});
  EXPECT_NEAR(moments(t).first, -1, 0.005);
  EXPECT_NEAR(moments(t).second, 0.25, 0.005);
  const auto beyond = std::ranges::count_if(t.data<float>(), [](float x) { return x > 0; });
  EXPECT_NEAR(double(beyond) / 200'000, 0.02275, 0.002);  // two deviations above the mean
}

// ---- permutations

static bool is_permutation_of(int64_t n, const Tensor& order) {
  std::vector<bool> seen(n);
  for (const int64_t i : order.data<int64_t>()) {
    if (i < 0 || i >= n || seen[i]) return false;
    seen[i] = true;
  }
  return order.numel() == n;
}

TEST(Permutation, HitsEachElementOnceForManySizes) {
  std::vector<int64_t> sizes{0, 1, 255, 256, 257, 1023, 1024, 1025, 4095, 4097, 60'000, 65'537};
  for (int64_t n = 2; n < 130; ++n) sizes.push_back(n);
  for (const int64_t n : sizes)
    for (const bool serial : {false, true})
      for (uint64_t seed = 0; seed < 3; ++seed)
        EXPECT_TRUE(is_permutation_of(n, randperm(n, {.seed = seed}, Device::cpu, serial)))
            << n << " elements, seed " << seed << (serial ? ", serial" : "");
}

TEST(Permutation, ReachesTheEndOfTheLargestRange) {
  const uint64_t n = (uint64_t(1) << 32) - 1;
  const Permutation permutation(n, {.seed = 1});
  std::set<uint64_t> images;
  for (uint64_t i = 0; i < 1000; ++i) images.insert(permutation(n - 1 - i));
  EXPECT_EQ(images.size(), 1000u);
  EXPECT_LT(*images.rbegin(), n);
  EXPECT_GT(*images.rbegin(), n - n / 100);
  EXPECT_EQ(refusal([] { randperm(int64_t(1) << 32, {}, Device::cpu); }),
            "randperm: n = 4294967296 is not in [0, 2^32)");
}

// Chi squared of the pairs of elements at two positions, over many keys; all pairs are equally
// likely.
static double chi2_of_pairs(int64_t n, int64_t at, int64_t other, bool serial) {
  constexpr int kKeys = 20'000;
  std::map<std::pair<int64_t, int64_t>, int> seen;
  for (uint64_t epoch = 0; epoch < kKeys; ++epoch) {
    const Tensor order =
        randperm(n, {.seed = 11, .purpose = Purpose::shuffle, .step = epoch}, Device::cpu, serial);
    ++seen[{order.data<int64_t>()[at], order.data<int64_t>()[other]}];
  }
  const double expected = kKeys / double(n * (n - 1));
  double chi2 = expected * double(n * (n - 1) - int64_t(seen.size()));  // pairs never seen
  for (const auto& [pair, count] : seen) chi2 += (count - expected) * (count - expected) / expected;
  return chi2;
}

TEST(Permutation, OrdersAreEquallyLikely) {
  for (const bool serial : {false, true})
    for (const int64_t n : {2, 3, 4, 5, 8, 10, 17, 64})
      for (const auto& [at, other] : {std::pair<int64_t, int64_t>{0, 1}, {n / 2, n - 1}}) {
        if (at == other) continue;
        const double freedom = double(n * (n - 1) - 1);
        // Four deviations above the mean of chi squared.
        EXPECT_LT(chi2_of_pairs(n, at, other, serial), freedom + 4 * std::sqrt(2 * freedom) + 4)
            << n << " elements at " << at << " and " << other << (serial ? ", serial" : "");
      }
}
