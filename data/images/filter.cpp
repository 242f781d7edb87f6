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

// Triangles of the pixels of an axis, computed on request. Positions count from the start of the
// source, even if only a part is held, so that a part of an image gives the same bits as the whole.
class Triangles {
 public:
  Triangles(const Axis& axis, const SourceRange& held)
      : axis_(axis),
        pixel_(1. / double(held.reduced)),
        reach_(std::max(1., axis.step * pixel_)),
        slope_(1 / reach_),
        low_(std::max(held.begin, axis.low / held.reduced)),
        high_(std::min(held.begin + held.size, ceil_div(axis.high, held.reduced))) {}

  Triangle operator[](int64_t i) const {
    const int64_t cell = axis_.cells.cell(i);
    if (cell < 0) return {};
    const double center = axis_.center(cell) * pixel_;
    const auto first = static_cast<int64_t>(std::floor(center - .5 - reach_)) + 1;
    const auto last = static_cast<int64_t>(std::ceil(center - .5 + reach_)) - 1;
    const Triangle t{center, slope_, std::max(low_, first), std::min(high_ - 1, last)};
    INVARIANT(t.first <= t.last, "no pixel is held near ", center);
    return t;
  }

 private:
  const Axis& axis_;
  const double pixel_, reach_, slope_;
  const int64_t low_, high_;
};

}  // namespace

ReadRange read_range(const Axis& axis, const SourceRange& held) {
  const Triangles triangles(axis, held);
  ReadRange range{.begin = held.size};
  for (int64_t i = 0; i < axis.cells.size(); ++i) {
    const Triangle t = triangles[i];
    if (t.last < 0) continue;
    range.begin = std::min(range.begin, t.first - held.begin);
    range.end = std::max(range.end, t.last + 1 - held.begin);
    range.taps = std::max(range.taps, t.last - t.first + 1);
  }
  return range;
}

Filter::Filter(const Axis& axis, const SourceRange& held)
    : range_(read_range(axis, held)),
      firsts_(axis.cells.size()),
      weights_(axis.cells.size() * taps()) {
  const Triangles triangles(axis, held);
  for (int64_t i = 0; i < axis.cells.size(); ++i) {
    const Triangle t = triangles[i];
    if (t.last < 0) continue;
    const int64_t first = t.first - held.begin;
    firsts_[i] = static_cast<int32_t>(std::min(first, held.size - taps()));
    float* const weights = &weights_[i * taps() + first - firsts_[i]];
    const double share = 1 / t.sum();
    for (int64_t x = t.first; x <= t.last; ++x) weights[x - t.first] = float(t.at(x) * share);
  }
}

}  // namespace bellows
