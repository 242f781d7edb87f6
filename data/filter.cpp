#include "data/filter.h"

namespace bellows {

Filter::Filter(const Axis& axis, const Held& held) : begin_(held.size) {
  const double pixel = 1. / double(held.reduced), reach = std::max(1., axis.step() * pixel);
  const int64_t low = axis.low() / held.reduced - held.begin;
  const int64_t high = (axis.high() + held.reduced - 1) / held.reduced - held.begin;
  taps_.reserve(axis.size());
  for (int64_t i = 0; i < axis.size(); ++i) {
    const int64_t cell = axis.cell(i);
    if (cell < 0)
      taps_.push_back({});
    else
      add(axis.centre(cell) * pixel - double(held.begin), reach, std::max<int64_t>(0, low),
          std::min(held.size, high));
  }
}

// max(0, 1 - |x - centre| / reach) at the middles of the pixels.
void Filter::add(double centre, double reach, int64_t low, int64_t high) {
  const auto weight = [&](int64_t x) {
    return std::max(0., 1 - std::abs(double(x) + .5 - centre) / reach);
  };
  int64_t first = std::max(low, static_cast<int64_t>(std::floor(centre - reach)));
  int64_t last = std::min(high - 1, static_cast<int64_t>(std::floor(centre + reach)));
  while (first < last && weight(first) == 0) ++first;
  while (first < last && weight(last) == 0) --last;
  INVARIANT(first <= last, "no pixel is held near ", centre);
  double sum = 0;
  for (int64_t x = first; x <= last; ++x) sum += weight(x);
  taps_.push_back({first, static_cast<int64_t>(weights_.size()), last - first + 1});
  for (int64_t x = first; x <= last; ++x) weights_.push_back(float(weight(x) / sum));
  begin_ = std::min(begin_, first);
  end_ = std::max(end_, last + 1);
  mixes_ |= last > first;
}

}  // namespace bellows
