// Integer rounding, for n >= 0 and a positive step.
#pragma once
#include <type_traits>
#include "core/base/half.h"

namespace bellows {

// Returns n / step, rounded up.
template <class N> HD constexpr N ceil_div(N n, std::type_identity_t<N> step) {
  return (n + step - 1) / step;
}
// Returns the smallest multiple of step that is not below n.
template <class N> HD constexpr N round_up(N n, std::type_identity_t<N> step) {
  return ceil_div(n, step) * step;
}

}  // namespace bellows
