#include "data/images/filter.h"
#include <algorithm>
#include <cmath>
#include "core/base/check.h"
#include "core/base/round.h"

namespace bellows {

namespace {

// Triangle filter, max(0, 1 - |x - center| / reach), at the centers of pixels.
struct Triangle {
  double center = 0, slope = 0;  // 1 / reach
  int64_t first = 0, last = -1;  // pixels where it is above 0; none for a black pixel

  double at(int64_t x) const { return std::max(0., 1 - std::abs(double(x) + .5 - center) * slope); }
  double sum() const {
    double sum = 0;
    for (int64_t x = first; x <= last; ++x) sum += at(x);
    return sum;
  }
};

// Returns the triangles of the output pixels. Positions count from the start of the source, even if
// only a part is held, so that a part of an image gives the same bits as the whole.
std::vector<Triangle> triangles_of(const Axis& axis, const SourceRange& held) {
  const double pixel = 1. / double(held.reduced), reach = std::max(1., axis.step * pixel);
  const int64_t low = std::max(held.begin, axis.low / held.reduced);
  const int64_t high = std::min(held.begin + held.size, ceil_div(axis.high, held.reduced));
  std::vector<Triangle> triangles(axis.cells.size());
  for (int64_t i = 0; i < axis.cells.size(); ++i) {
    const int64_t cell = axis.cells.cell(i);
    if (cell < 0) continue;
    const double center = axis.center(cell) * pixel;
    const auto first = static_cast<int64_t>(std::floor(center - .5 - reach)) + 1;
    const auto last = static_cast<int64_t>(std::ceil(center - .5 + reach)) - 1;
    const Triangle& t =
        triangles[i] = {center, 1 / reach, std::max(low, first), std::min(high - 1, last)};
    INVARIANT(t.first <= t.last, "no pixel is held near ", center);
  }
  return triangles;
}

ReadRange range_of(const std::vector<Triangle>& triangles, const SourceRange& held) {
  ReadRange range{.begin = held.size};
  for (const Triangle& t : triangles) {
    if (t.last < 0) continue;
    range.begin = std::min(range.begin, t.first - held.begin);
    range.end = std::max(range.end, t.last + 1 - held.begin);
    range.taps = std::max(range.taps, t.last - t.first + 1);
  }
  return range;
}

}  // namespace

ReadRange read_range(const Axis& axis, const SourceRange& held) {
  return range_of(triangles_of(axis, held), held);
}

Filter::Filter(const Axis& axis, const SourceRange& held) : firsts_(axis.cells.size()) {
  const std::vector<Triangle> triangles = triangles_of(axis, held);
  range_ = range_of(triangles, held);
  weights_.resize(triangles.size() * taps());
  for (size_t i = 0; i < triangles.size(); ++i) {
    const Triangle& t = triangles[i];
    if (t.last < 0) continue;
    const int64_t first = t.first - held.begin;
    firsts_[i] = static_cast<int32_t>(std::min(first, held.size - taps()));
    float* const weights = &weights_[i * taps() + first - firsts_[i]];
    const double share = 1 / t.sum();
    for (int64_t x = t.first; x <= t.last; ++x) weights[x - t.first] = float(t.at(x) * share);
  }
}

}  // namespace bellows
