// Line charts and stacked areas.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "trainer/page/figure.h"
#include "trainer/page/html.h"

namespace bellows {

constexpr double kHeight = 208;      // px
constexpr size_t kMostPoints = 400;  // of a line; about one for each px of a phone

// Keeps the first, least, largest and last value of each of equal parts, so that no spike is lost.
static Series thinned(const Series& s) {
  if (s.x.size() <= kMostPoints) return s;
  Series few{s.name, s.tone};
  const size_t parts = kMostPoints / 4;
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * s.x.size() / parts, end = (part + 1) * s.x.size() / parts;
    const auto [least, most] = std::minmax_element(s.y.begin() + begin, s.y.begin() + end);
    std::vector<size_t> chosen = {begin, size_t(least - s.y.begin()), size_t(most - s.y.begin()),
                                  end - 1};
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const size_t i : chosen) few.x.push_back(s.x[i]), few.y.push_back(s.y[i]);
  }
  return few;
}

static Series drawable(const Series& s, bool positive) {
  Series kept{s.name, s.tone};
  for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i)
    if (std::isfinite(s.x[i]) && std::isfinite(s.y[i]) && (!positive || s.y[i] > 0))
      kept.x.push_back(s.x[i]), kept.y.push_back(s.y[i]);
  return thinned(kept);
}

namespace {
struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
};
struct EndLabel {
  double y;
  const Series* series;
};
}  // namespace

static Scale y_scale(const LineChart& chart, const std::vector<Series>& tops) {
  Range range;
  for (const Series& s : tops)
    for (const double y : s.y) range.add(y);
  for (const auto& [x, low, high] : chart.intervals) range.add(low), range.add(high);
  if (chart.y_axis == YAxis::log) return log_scale(range.low, range.high);
  if (chart.stacked || chart.y_axis == YAxis::from_zero) range.add(0);
  return scale_around(range.low, range.high, 4);
}

// Upper edges of stacked areas, which share their x. Of all points: drawable() thins each series
// by its own values.
static std::vector<Series> sums(std::vector<Series> series) {
  for (size_t s = 1; s < series.size(); ++s)
    for (size_t i = 0; i < std::min(series[s].y.size(), series[s - 1].y.size()); ++i)
      series[s].y[i] += series[s - 1].y[i];
  return series;
}

// Moves labels of two lines apart, the upper ones first.
static void spread(std::vector<EndLabel>& labels) {
  constexpr double kLines = 34, kHalf = 16;
  std::ranges::sort(labels, {}, &EndLabel::y);
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i].y = std::max(labels[i].y, i ? labels[i - 1].y + kLines : kHalf - 8);
  double limit = kHeight - kHalf + 8;
  for (size_t i = labels.size(); i-- > 0; limit = labels[i].y - kLines)
    labels[i].y = std::min(labels[i].y, limit);
}

std::string line_chart(const LineChart& chart) {
  const std::vector<Series> edges = chart.stacked ? sums(chart.series) : chart.series;
  std::vector<Series> series, tops;
  for (size_t s = 0; s < edges.size(); ++s)
    if (const Series top = drawable(edges[s], chart.y_axis == YAxis::log); !top.x.empty()) {
      tops.push_back(top);
      series.push_back(drawable(chart.series[s], chart.y_axis == YAxis::log));
    }
  if (std::ranges::all_of(series, [](const Series& s) { return s.x.size() < 2; })) return "";
  Range x_range;
  for (const Series& s : series) x_range.add(s.x.front()), x_range.add(s.x.back());
  const Scale x = scale_over(x_range.low, x_range.high, 5), y = y_scale(chart, tops);

  size_t left = 0, right = 0;
  for (const double tick : y.ticks) left = std::max(left, short_number(tick).size());
  for (const Series& s : series)
    right = std::max({right, s.name.size(), (short_number(s.y.back()) + chart.unit).size()});
  Plot plot(kHeight, left + 2, right + 2);
  const auto y_of = [&](double value) { return kHeight * (1 - y.at(value)); };
  for (const double tick : y.ticks) {
    plot.line("grid", 0, y_of(tick), 1, y_of(tick));
    plot.label("y", 0, y_of(tick), short_number(tick));
  }
  std::vector<PlotPoint> below = {{0, kHeight}, {1, kHeight}};
  std::vector<EndLabel> labels;
  for (size_t s = 0; s < tops.size(); ++s) {
    std::vector<PlotPoint> points;
    for (size_t i = 0; i < tops[s].x.size(); ++i)
      points.push_back({x.at(tops[s].x[i]), y_of(tops[s].y[i])});
    double end = points.back().y;
    if (chart.stacked) {
      std::vector<PlotPoint> area = points;
      area.insert(area.end(), below.rbegin(), below.rend());
      plot.path("area", tops[s].tone, path_of(area) + "Z");
      end = (end + below.back().y) / 2;
      below = points;
    } else {
      plot.path("line", tops[s].tone, path_of(points));
      if (points.size() <= 30) plot.path("dot", tops[s].tone, dots_of(points));
    }
    labels.push_back({end, &series[s]});
  }
  for (const auto& [at, low, high] : chart.intervals)
    plot.line("interval", x.at(at), y_of(low), x.at(at), y_of(high));
  if (chart.mark >= x.low && chart.mark <= x.high) {
    plot.line("one", x.at(chart.mark), 0, x.at(chart.mark), kHeight);
    plot.label("x", x.at(chart.mark), -18, chart.mark_name);
  }
  spread(labels);
  for (const auto& [at, s] : labels)
    plot.label_html("end", 1, at,
                    fmt::format("<b class={}>{}</b>{}", letter_of(s->tone), escaped(s->name),
                                escaped(short_number(s->y.back()) + chart.unit)));
  plot.x_axis(x, chart.x_name);
  plot.values(x.low, x.high, series);
  return figure(chart.title, chart.note, plot.html());
}

}  // namespace bellows
