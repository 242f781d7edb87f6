// embedding beyond the generic suite: exact values, the order of sums, and a wrong index.
#include "ops/embedding.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "ops/elementwise.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;
using testing::ElementsAreArray;

static Tensor weight() { return tensor_of<float>({1, 2, 3, 4, 5, 6}, {3, 2}); }

TEST(Embedding, PicksRowsForAnIndexOfAnyShapeAndStrides) {
  const Tensor index = tensor_of<int64_t>({2, 0, 1, 2, 2, 2}, {2, 3});
  const Tensor y = embedding(index, weight());
  EXPECT_EQ(y.shape(), (Shape{2, 3, 2}));
  EXPECT_THAT(y.data<float>(), ElementsAre(5, 6, 1, 2, 3, 4, 5, 6, 5, 6, 5, 6));
  const Tensor columns = embedding(index.view({3, 2}, {1, 3}, 0), weight());
  EXPECT_THAT(columns.data<float>(), ElementsAre(5, 6, 5, 6, 1, 2, 5, 6, 3, 4, 5, 6));
  EXPECT_THAT(embedding(tensor_of<int64_t>({1}, {}), weight()).data<float>(), ElementsAre(3, 4));
  EXPECT_EQ(embedding(zeros({0, 4}, DType::i64), weight()).shape(), (Shape{0, 4, 2}));
}

// More rows and columns than one chunk of work has, in the order of a plain loop.
TEST(Embedding, GradientsEqualThoseOfAPlainLoop) {
  constexpr int64_t kRows = 50, kColumns = 150, kPicks = 700;
  const Tensor w = require_grad(zeros({kRows, kColumns})), dy = zeros({kPicks, kColumns});
  std::vector<int64_t> index(kPicks);
  std::vector<float> want(kRows * kColumns);
  for (int64_t n = 0; n < kPicks; ++n) {
    index[n] = n * n % kRows;
    for (int64_t d = 0; d < kColumns; ++d) {
      dy.ptr<float>()[n * kColumns + d] = 1 / float(1 + n + d);
      want[index[n] * kColumns + d] += 1 / float(1 + n + d);
    }
  }
  backward(sum(mul(embedding(tensor_of(index, {kPicks}), w), dy)));
  EXPECT_THAT(grad(w).data<float>(), ElementsAreArray(want));
}

TEST(Embedding, KeepsItsPrecisionUnderAmp) {
  const Autocast precision(DType::bf16);
  EXPECT_EQ(embedding(zeros({4}, DType::i64), weight()).dtype(), DType::f32);
}

TEST(Embedding, AnIndexOutOfRangeIsADataErrorThatNamesTheFirstOne) {
  for (const int64_t wrong : {int64_t(-1), int64_t(3), INT64_MIN, INT64_MAX}) {
    const Tensor index = tensor_of<int64_t>({0, 2, wrong, 7}, {2, 2});
    const Refusal refusal = refused([&] { embedding(index, weight()); });
    EXPECT_EQ(refusal.exit, Exit::data);
    EXPECT_EQ(refusal.message, cat("embedding: index ", wrong, " at position 2 is not in [0, 3)"));
  }
}

TEST(Embedding, RefusesAnIndexOfAnotherType) {
  EXPECT_EQ(refusal([] { embedding(zeros({4}), weight()); }),
            "embedding: the index is f32, not i64");
}
