// A stretch of time: lanes of named slices, and below them a quantity over the same axis.
#include <fmt/format.h>
#include <algorithm>
#include "trainer/page/figure.h"
#include "trainer/page/html.h"

namespace bellows {

std::string lanes_chart(const LanesChart& chart) {
  constexpr double kLane = 30, kBelow = 130, kSpace = 14;  // px
  const bool below = chart.below.x.size() > 1;
  const double top = kLane * double(chart.lanes.size()),
               height = top + (below ? kSpace + kBelow : 0);
  const Scale x = scale_over(0, chart.ms, 6);
  size_t left = 0;
  for (const Lane& lane : chart.lanes) left = std::max(left, lane.name.size());
  Plot plot(height, left + 2, 2);
  std::string legend;
  for (size_t i = 0; i < chart.lanes.size(); ++i) {
    const double y = kLane * double(i);
    plot.label("y", 0, y + kLane / 2 - 4, chart.lanes[i].name);
    for (const LaneSlice& slice : chart.lanes[i].slices)
      plot.slice(slice.tone, x.at(slice.begin), x.at(slice.end), y, slice.name, slice.about);
  }
  if (below) {
    const Series& s = chart.below;
    const Scale y = scale_around(0, *std::ranges::max_element(s.y), 3);
    const auto y_of = [&](double value) { return height - kBelow * y.at(value); };
    for (const double tick : y.ticks) {
      plot.line("grid", 0, y_of(tick), 1, y_of(tick));
      plot.label("y", 0, y_of(tick), short_number(tick) + (tick > 0 ? chart.unit : ""));
    }
    std::vector<PlotPoint> steps;  // a value holds until the next one
    for (size_t i = 0; i < s.x.size(); ++i) {
      if (i > 0) steps.push_back({x.at(s.x[i]), steps.back().y});
      steps.push_back({x.at(s.x[i]), y_of(s.y[i])});
    }
    steps.push_back({1, steps.back().y});
    plot.path("line", s.tone, path_of(steps));
    std::vector<PlotPoint> area = steps;
    area.insert(area.end(), {{1, height}, {0, height}});
    plot.path("wash", s.tone, path_of(area) + "Z");
  }
  plot.x_axis(x, "ms");
  for (const auto& [tone, text] : chart.legend)
    legend +=
        fmt::format("<li><i class=\"slice {}\"></i>{}</li>\n", letter_of(tone), escaped(text));
  return figure(chart.title, chart.note, plot.html() + "<ul class=legend>\n" + legend + "</ul>\n");
}

}  // namespace bellows
