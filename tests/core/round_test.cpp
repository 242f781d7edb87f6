#include "core/base/round.h"
#include <gtest/gtest.h>
#include <cstddef>

using namespace bellows;

TEST(Round, GoesUpToTheFirstMultipleFromThereOn) {
  for (int64_t step = 1; step <= 9; ++step)
    for (int64_t n = 0; n <= 40; ++n) {
      int64_t steps = 0;
      while (steps * step < n) ++steps;
      EXPECT_EQ(ceil_div(n, step), steps) << n << " by " << step;
      EXPECT_EQ(round_up(n, step), steps * step) << n << " to " << step;
    }
}

TEST(Round, KeepsTheTypeOfTheNumber) {
  static_assert(round_up(size_t{1} << 40 | 1, 512) == (size_t{1} << 40) + 512);
  static_assert(std::is_same_v<decltype(ceil_div(1, int64_t{8})), int>);
}
