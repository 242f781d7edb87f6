// Divisor equals integer division at both ends of the range and around multiples of the divisor.
#include "core/base/divisor.h"
#include <gtest/gtest.h>
#include <random>

using namespace bellows;

constexpr int64_t kEnd = int64_t{1} << 31;

static void expect_divides(int64_t d) {
  const Divisor divisor(d);
  std::mt19937 dice(unsigned(d) * 7 + 1);
  std::vector<int64_t> numbers = {0, 1, kEnd - 1, kEnd - 2};
  for (const int64_t multiple : {d, 2 * d, (kEnd - 1) / d * d, int64_t(dice() >> 1) / d * d})
    for (const int64_t n : {multiple - 1, multiple, multiple + 1})
      if (n >= 0 && n < kEnd) numbers.push_back(n);
  for (const int64_t n : numbers) {
    ASSERT_EQ(int(n) / divisor, n / d) << n << " / " << d;
    ASSERT_EQ(int(n) % divisor, n % d) << n << " % " << d;
  }
}

TEST(Divisor, EqualsDivision) {
  for (int64_t d = 1; d <= 3000; ++d) expect_divides(d);
  for (int64_t power = 1; power < kEnd; power *= 2)
    for (const int64_t d : {power - 1, power, power + 1})
      if (d > 0) expect_divides(d);
  expect_divides(kEnd - 1);
  std::mt19937 dice(1);
  for (int i = 0; i < 3000; ++i) expect_divides((dice() >> 1) | 1);
}
