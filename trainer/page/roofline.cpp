// The roofline of a machine, and how close ops come to it.
#include <algorithm>
#include <cmath>
#include "trainer/page/figure.h"
#include "trainer/page/html.h"

namespace bellows {

namespace {
constexpr double kRooflineHeight = 300;  // px
constexpr double kPhone = 270;  // px: width of the plot on a phone, where labels must not meet

struct LabelBox {
  double left, right, y;  // y: of its middle
  bool meets(const LabelBox& other) const {
    return left < other.right && other.left < right && std::abs(y - other.y) < 15;
  }
};
}  // namespace

std::string roofline(const Roofline& chart) {
  std::vector<RooflinePoint> points;
  double low_x = INFINITY, high_x = 0, low_y = INFINITY, most = 0;
  for (const RooflinePoint& p : chart.points)
    if (p.flop_per_byte > 0 && p.flop_per_s > 0) {
      points.push_back(p);
      low_x = std::min(low_x, p.flop_per_byte), high_x = std::max(high_x, p.flop_per_byte);
      low_y = std::min(low_y, p.flop_per_s), most = std::max(most, p.flop_per_s);
    }
  for (const auto& [name, rate] : chart.ceilings) {
    high_x = std::max(high_x, 2 * rate / chart.bytes_per_s);  // so that the knee is in the chart
    most = std::max(most, rate);
  }
  if (points.empty() || chart.ceilings.empty() || !(chart.bytes_per_s > 0)) return "";
  const Scale x = log_scale(low_x, high_x), y = log_scale(1e-9 * low_y, 1e-9 * most);
  const auto y_of = [&](double rate) { return kRooflineHeight * (1 - y.at(1e-9 * rate)); };
  size_t left = 0;
  for (const double tick : y.ticks) left = std::max(left, short_number(tick).size());
  Plot plot(kRooflineHeight, left + 2, 2);
  for (const double tick : y.ticks) {
    plot.line("grid", 0, y_of(1e9 * tick), 1, y_of(1e9 * tick));
    plot.label("y", 0, y_of(1e9 * tick), short_number(tick));
  }
  double roof = 0;
  for (const auto& [name, rate] : chart.ceilings) roof = std::max(roof, rate);
  const double begin = std::max(x.low, 1e9 * y.low / chart.bytes_per_s),
               end = roof / chart.bytes_per_s;
  plot.line("one", x.at(begin), y_of(begin * chart.bytes_per_s), x.at(end), y_of(roof));
  std::vector<LabelBox> taken;
  const auto fits = [&](const LabelBox& box) {
    return box.left >= 0 && box.right <= 1 &&
           std::ranges::none_of(taken, [&](const LabelBox& other) { return box.meets(other); });
  };
  for (const auto& [name, rate] : chart.ceilings) {
    const double width = 7 * double(name.size()) / kPhone;
    plot.line("one", x.at(rate / chart.bytes_per_s), y_of(rate), 1, y_of(rate));
    plot.label("roof", 1, y_of(rate) - 18, name);
    taken.push_back({1 - width, 1, y_of(rate) - 10});
  }
  for (const RooflinePoint& p : points) {
    const double at = x.at(p.flop_per_byte);
    taken.push_back({at - 0.02, at + 0.02, y_of(p.flop_per_s)});
  }
  for (const RooflinePoint& p : points) {
    const double at = x.at(p.flop_per_byte), height = y_of(p.flop_per_s),
                 width = 7 * double(p.name.size()) / kPhone;
    plot.path("dot big", p.tone, dots_of(std::vector<PlotPoint>{{at, height}}));
    const LabelBox right{at + 0.025, at + 0.025 + width, height},
        before{at - 0.025 - width, at - 0.025, height};
    const LabelBox below{at - width / 2, at + width / 2, height + 16},
        above{below.left, below.right, height - 16};
    for (const auto& [box, kind, y] : {std::tuple(right, "end", height),
                                       {before, "start", height},
                                       {below, "x", height + 8},
                                       {above, "x", height - 24}})
      if (fits(box)) {
        plot.label(kind, at, y, p.name);
        taken.push_back(box);
        break;
      }
  }
  plot.x_axis(x, "FLOP per byte");
  return figure(chart.title, chart.note, plot.html());
}

}  // namespace bellows
