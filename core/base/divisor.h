// Fast division by an integer that is known before a kernel starts: a product and a shift. A
// division takes a GPU about twenty instructions.
#pragma once
#include <bit>
#include "core/base/dtype.h"
#include "core/base/round.h"

namespace bellows {

// Computes n / d and n % d for 0 <= n < 2^31 and 1 <= d < 2^31. Other d throw Error, exit 2.
//
// With s = 31 + ceil(log2 d) and m = ceil(2^s / d), the error e = m d - 2^s is less than d.
// Hence n m / 2^s exceeds n / d by n e / (2^s d) < 1 / d, too little to reach the next integer. And
// m fits 32 bits.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int64_t d)
      : size(static_cast<int>(d)), shift_(31 + std::bit_width(uint64_t(d) - 1)) {
    CHECK(d >= 1 && d < int64_t{1} << 31, "Divisor: ", d, " is not in [1, 2^31)");
    factor_ = uint32_t(ceil_div(uint64_t{1} << shift_, uint64_t(d)));
  }
  HD friend int operator/(int n, const Divisor& d) {
    return static_cast<int>(uint64_t{uint32_t(n)} * d.factor_ >> d.shift_);
  }
  HD friend int operator%(int n, const Divisor& d) { return n - n / d * d.size; }

  int size = 1;  // d

 private:
  int shift_ = 31;
  uint32_t factor_ = 1u << 31;
};

}  // namespace bellows
