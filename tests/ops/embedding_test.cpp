// embedding beyond the generic suite: exact values, and a wrong index.
#include "ops/embedding.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;

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
