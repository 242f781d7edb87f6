// Whole numbers rounded up, for n >= 0 and a positive step.
#pragma once
#include <type_traits>
#include "core/base/half.h"

namespace bellows {

// How many steps it takes to cover n.
template <class N> HD constexpr N ceil_div(N n, std::type_identity_t<N> step) {
  return (n + step - 1) / step;
}
// The first multiple of step from n on.
template <class N> HD constexpr N round_up(N n, std::type_identity_t<N> step) {
  return ceil_div(n, step) * step;
}

}  // namespace bellows
