// attention beyond the generic suite: parts of blocks, masks, bits, memory and errors.
#include "ops/attention/attention.h"
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "tests/difference.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;

static Tensor normal(const Shape& shape, uint64_t seed, DType dtype = DType::f64) {
  const Tensor t(shape, DType::f64);
  fill_normal(t, 0, 1, {.seed = seed});
  return cast(t, dtype);
}

static Tensor lengths_of(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? Tensor() : tensor_of(lengths, {int64_t(lengths.size())});
}

// 1, 63, 64, 65 and 130 keys: parts of a block, whole blocks, and more than two of them.
TEST(Attention, EqualsTheComposedOp) {
  for (const int64_t T : {1, 7, 63, 64, 65, 130})
    for (const int64_t size : {1, 5, 16, 64})
      for (const bool causal : {false, true})
        for (const std::vector<int64_t>& lengths :
             {std::vector<int64_t>{}, {T, T / 2}, {0, T + 3}, {T - 1, 1}}) {
          SCOPED_TRACE(cat("T ", T, ", size ", size, causal ? ", causal, " : ", ", lengths.size()));
          const AttentionOptions options{.heads = 3, .causal = causal};
          const Tensor qkv = normal({2, T, 9 * size}, 1), padding = lengths_of(lengths);
          const Tensor want = attention(qkv, padding, options, Impl::composed);
          EXPECT_LE(difference(want, attention(qkv, padding, options)), 2e-13);
          EXPECT_LE(difference(want, attention(cast(qkv, DType::f32), padding, options)), 2e-6);
        }
}

// The derivative of sum(y * weights).
static Tensor gradient(const Tensor& qkv, const Tensor& lengths, const AttentionOptions& options) {
  const Tensor x = require_grad(qkv), y = attention(x, lengths, options);
  const Tensor weights = normal(y.shape(), 2, y.dtype());
  backward(record("weigh", full({}, 0, y), {y}, [&](const Tensor&) { return Grads{weights}; }));
  return grad(x);
}

// The padding may hold anything, even NaN.
TEST(Attention, PaddedKeysAreNeitherReadNorGivenAGradient) {
  for (const bool causal : {false, true}) {
    const int64_t T = 70, D = 8, length = 66;
    const AttentionOptions options{.heads = 2, .causal = causal};
    const Tensor qkv = normal({1, T, 3 * D}, 1, DType::f32), lengths = lengths_of({length});
    const Tensor want = attention(qkv, lengths, options), dwant = gradient(qkv, lengths, options);
    const Tensor filled = clone(qkv);
    for (int64_t t = length; t < T; ++t)
      std::fill_n(filled.ptr<float>() + t * 3 * D + D, 2 * D, NAN);
    EXPECT_EQ(difference(want, attention(filled, lengths, options)), 0);
    const Tensor got = gradient(filled, lengths, options);
    EXPECT_EQ(difference(dwant, got), 0);
    for (int64_t t = length; t < T; ++t)
      for (int64_t c = D; c < 3 * D; ++c) EXPECT_EQ(got.data<float>()[t * 3 * D + c], 0);
  }
}

// The largest score of a row is subtracted before exp, so that only differences count.
TEST(Attention, ScoresBeyondTheRangeOfExpAreFine) {
  const Tensor qkv =
      cast(tensor_of<double>({1000, 1000, 3, 1000, 999, 5, 0, 0, 7}, {1, 3, 3}), DType::f32);
  const Tensor y = attention(qkv, {}, {.heads = 1, .causal = false});
  EXPECT_EQ(y.data<float>()[0], 3);
  EXPECT_EQ(y.data<float>()[1], 3);
  EXPECT_FLOAT_EQ(y.data<float>()[2], 5);
  EXPECT_TRUE(std::isfinite(gradient(qkv, {}, {.heads = 1, .causal = false}).data<float>()[0]));
}

TEST(Attention, NanReachesTheQueriesThatSeeIt) {
  const Tensor qkv = normal({1, 80, 12}, 1, DType::f32);
  qkv.data<float>()[70 * 12 + 4] = NAN;  // a key
  const Tensor y = attention(qkv, {}, {.heads = 1, .causal = true});
  for (int64_t t = 0; t < 80; ++t) EXPECT_EQ(std::isnan(y.data<float>()[t * 4]), t >= 70) << t;
}

TEST(Attention, SavesItsResultAndOneValuePerQuery) {
  const Moved saved("mem.saved_bytes");
  const Tensor qkv = require_grad(normal({2, 100, 24}, 1, DType::f32));
  const Tensor y = attention(qkv, {}, {.heads = 2, .causal = true});
  EXPECT_EQ(saved, int64_t(y.nbytes()) + 2 * 2 * 100 * 4);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Tensor qkv = normal({2, 4, 12}, 1);
  EXPECT_EQ(refusal([&] { attention(qkv, {}, {.heads = 3}); }),
            "attention: qkv [2,4,12] should be (B, T, 3 D), where D is a multiple of 3 heads");
  EXPECT_EQ(refusal([&] { attention(qkv, tensor_of<int64_t>({4}, {1}), {.heads = 2}); }),
            "attention: qkv [2,4,12] needs lengths of shape [2], got [1]");
  EXPECT_EQ(refusal([&] {
              attention(qkv, tensor_of<float>({4, 4}, {2}), {.heads = 2});
            }),
            "attention: the lengths are f32, not i64");
  EXPECT_EQ(refusal([&] { attention(cast(qkv, DType::i64), {}, {.heads = 2}); }),
            "attention: qkv is i64, not a float type");
  EXPECT_EQ(refused([&] { attention(qkv, {}, {.heads = 0}); }).exit, Exit::usage);
}
