// The larger of two errors; NaN if one of them is, which std::max would drop.
#pragma once
#include <cmath>

namespace bellows {

inline double worse(double worst, double error) {
  return std::isnan(worst) || error <= worst ? worst : error;
}

}  // namespace bellows
