// Formulas of ops/base/functors.h as function objects, which the loops of a device call for each
// element. They take and return float or double.
#pragma once
#include "ops/base/functors.h"

namespace bellows {

template <class F> struct Apply {
  // Results have as few bits as the operands, so storing them needs no rounding.
  static constexpr bool exact = F::exact;
  // Bits of the operands that have loops in which they are constant along a row.
  static constexpr int constants = F::constants;
  template <class... A> FORMULA auto operator()(A... x) const { return F::value(x...); }
};

struct ApplyAffine {
  double scale, shift;
  template <class A> FORMULA A operator()(A x) const {
    return functors::Affine::value(x, A(scale), A(shift));
  }
};

}  // namespace bellows
