#include "trainer/page/scale.h"
#include <algorithm>
#include <cmath>

namespace bellows {

double Scale::at(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

// The smallest of 1, 2, 5 x 10^n that makes at most `count` steps.
static double step_of(double range, int count) {
  const double power = std::pow(10, std::floor(std::log10(range / count)));
  for (const double factor : {1, 2, 5})
    if (range / (factor * power) <= count) return factor * power;
  return 10 * power;
}

// Returns the upper end: `high`, or low + room if the two are equal but for rounding. A step
// between those would add nothing to a tick.
static double upper_end(double low, double high, double room) {
  return high - low > 1e-12 * std::abs(low) ? high : low + room;
}

static Scale with_ticks(Scale scale, double step) {
  constexpr int kMost = 100;  // far more than any chart has
  const double first = std::ceil(scale.low / step - 1e-9);
  const double last = std::floor(scale.high / step + 1e-9);
  for (int i = 0; i < kMost && first + i <= last; ++i)
    scale.ticks.push_back(first + i == 0 ? 0 : (first + i) * step);
  return scale;
}

Scale scale_over(double low, double high, int count) {
  high = upper_end(low, high, std::max(1.0, 1e-9 * std::abs(low)));
  return with_ticks({low, high}, step_of(high - low, count));
}

Scale scale_around(double low, double high, int count) {
  high = upper_end(low, high, low == 0 ? 1 : 0.1 * std::abs(low));
  const double step = step_of(high - low, count);
  return with_ticks({step * std::floor(low / step + 1e-9), step * std::ceil(high / step - 1e-9)},
                    step);
}

// Decades; within two of them 1, 2 and 5 as well; within a small part of one, linear ticks.
Scale log_scale(double low, double high) {
  const double room = std::pow(std::max(high / low, 1.02), 0.06);
  Scale scale = {low / room, high * room, true};
  const double decades = std::log10(scale.high / scale.low);
  if (decades < 0.7) {
    scale.ticks = scale_over(scale.low, scale.high, 4).ticks;
    return scale;
  }
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 5)));
  for (int n = static_cast<int>(std::floor(std::log10(scale.low))); n <= 308; n += every)
    for (const double factor : {1, 2, 5}) {
      if (factor > 1 && decades > 2) continue;
      const double tick = factor * std::pow(10, n);
      if (tick > scale.high) return scale;
      if (tick >= scale.low) scale.ticks.push_back(tick);
    }
  return scale;
}

}  // namespace bellows
