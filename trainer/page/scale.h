// The axis of a chart: where a value lies, and its ticks.
#pragma once
#include <vector>

namespace bellows {

struct Scale {
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<double> ticks = {};

  double at(double value) const;  // 0 at low, 1 at high
};

// `count`: ticks to aim at. The ends are those of the data.
Scale scale_over(double low, double high, int count);
// The ends are ticks.
Scale scale_around(double low, double high, int count);
// For low > 0; the ends are those of the data, a little widened.
Scale log_scale(double low, double high);

}  // namespace bellows
