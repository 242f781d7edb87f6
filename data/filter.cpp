#include "data/filter.h"

namespace bellows {

namespace {

// max(0, 1 - |x - centre| / reach) at the middles of the pixels.
struct Triangle {
  double centre, reach;
  int64_t first = 0, last = -1;  // where it is above 0

  double at(int64_t x) const { return std::max(0., 1 - std::abs(double(x) + .5 - centre) / reach); }
  void cut(int64_t low, int64_t high) {
    first = std::max(low, static_cast<int64_t>(std::floor(centre - reach)));
    last = std::min(high - 1, static_cast<int64_t>(std::floor(centre + reach)));
    while (first < last && at(first) == 0) ++first;
    while (first < last && at(last) == 0) --last;
    INVARIANT(first <= last, "no pixel is held near ", centre);
  }
  double sum() const {
    double sum = 0;
    for (int64_t x = first; x <= last; ++x) sum += at(x);
    return sum;
  }
};

// One for each pixel, empty for those that are black.
std::vector<Triangle> triangles_of(const Axis& axis, const Held& held) {
  const double pixel = 1. / double(held.reduced), reach = std::max(1., axis.step() * pixel);
  const int64_t low = axis.low() / held.reduced - held.begin;
  const int64_t high = (axis.high() + held.reduced - 1) / held.reduced - held.begin;
  std::vector<Triangle> triangles(axis.size());
  for (int64_t i = 0; i < axis.size(); ++i) {
    const int64_t cell = axis.cell(i);
    if (cell < 0) continue;
    triangles[i] = {axis.centre(cell) * pixel - double(held.begin), reach};
    triangles[i].cut(std::max<int64_t>(0, low), std::min(held.size, high));
  }
  return triangles;
}

}  // namespace

Filter::Filter(const Axis& axis, const Held& held) : begin_(held.size), firsts_(axis.size()) {
  const std::vector<Triangle> triangles = triangles_of(axis, held);
  for (const Triangle& t : triangles) {
    taps_ = std::max(taps_, t.last - t.first + 1);
    if (t.last < 0) continue;
    begin_ = std::min(begin_, t.first);
    end_ = std::max(end_, t.last + 1);
  }
  weights_.resize(axis.size() * taps_);
  for (int64_t i = 0; i < axis.size(); ++i) {
    const Triangle& t = triangles[i];
    firsts_[i] = static_cast<int32_t>(std::min(t.first, held.size - taps_));
    const double sum = t.sum();
    for (int64_t x = t.first; x <= t.last; ++x)
      weights_[(x - firsts_[i]) * axis.size() + i] = float(t.at(x) / sum);
  }
}

}  // namespace bellows
