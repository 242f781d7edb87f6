// nearest(): the known name closest to a misspelled one.
#include <gtest/gtest.h>
#include "core/config/hint.h"

using bellows::nearest;

TEST(Nearest, TakesTheFewestLettersToChange) {
  EXPECT_EQ(nearest("lenett", {"resnet18", "lenet", "mlp"}), "lenet");
  EXPECT_EQ(nearest("ab", {"abcdef", "xy"}), "xy");  // two letters are too few for a prefix
}

TEST(Nearest, IsWhatBeginsWithTheWord) {
  EXPECT_EQ(nearest("resnet", {"lenet", "resnet18", "resnet50"}), "resnet18");
}

TEST(Nearest, LooksIntoOtherSections) {
  EXPECT_EQ(nearest("lr", {"data.name", "optimizer.lr", "seed"}), "optimizer.lr");
  EXPECT_EQ(nearest("model.lr", {"model.name", "optimizer.lr"}), "optimizer.lr");
}
