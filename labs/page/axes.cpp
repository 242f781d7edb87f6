// Figures with two axes: lines and stacked areas, lanes of time slices above a quantity, and the
// roofline of a machine with the ops below it.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "labs/page/figure.h"
#include "labs/page/html.h"

namespace bellows {

// Draws the grid lines and labels of the y axis; y_of() returns the height of a tick.
static void draw_grid(Plot& plot, const Scale& y, const auto& y_of, const std::string& unit = "") {
  for (const double tick : y.ticks) {
    plot.line("grid", 0, y_of(tick), 1, y_of(tick));
    plot.label("y", 0, y_of(tick), short_number(tick) + (tick > 0 ? unit : ""));
  }
}

// Returns the width of the y labels, in characters.
static size_t room_beside(const Scale& y) {
  size_t widest = 0;
  for (const double tick : y.ticks) widest = std::max(widest, short_number(tick).size());
  return widest + 2;
}

// ---- line charts and stacked areas

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

// Draws each line, or the area between it and the one before. Returns the labels of their ends.
static std::vector<EndLabel> draw(Plot& plot, const LineChart& chart,
                                  const std::vector<Series>& series,
                                  const std::vector<Series>& tops, const auto& place) {
  std::vector<EndLabel> labels;
  std::vector<PlotPoint> below = {{0, kHeight}, {1, kHeight}};
  for (size_t s = 0; s < tops.size(); ++s) {
    std::vector<PlotPoint> points;
    for (size_t i = 0; i < tops[s].x.size(); ++i)
      points.push_back(place(tops[s].x[i], tops[s].y[i]));
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
  return labels;
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

  const auto last = [&](const Series& s) { return short_number(s.y.back()) + chart.unit; };
  size_t right = 0;
  for (const Series& s : series) right = std::max({right, s.name.size(), last(s).size()});
  Plot plot(kHeight, room_beside(y), right + 2);
  const auto y_of = [&](double value) { return kHeight * (1 - y.at(value)); };
  draw_grid(plot, y, y_of);
  std::vector<EndLabel> labels = draw(plot, chart, series, tops, [&](double at, double value) {
    return PlotPoint{x.at(at), y_of(value)};
  });
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
                                escaped(last(*s))));
  plot.x_axis(x, chart.x_name);
  plot.values(x.low, x.high, series);
  return figure(chart.title, chart.note, plot.html());
}

// ---- lanes

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
    draw_grid(plot, y, y_of, chart.unit);
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

// ---- the roofline

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

// Draws the points, and names each where there is room: beside it, below or above. The first ones
// come first. `taken`: boxes where no name may be.
static void draw_points(Plot& plot, const std::vector<RooflinePoint>& points,
                        std::vector<LabelBox> taken, const auto& place) {
  for (const RooflinePoint& p : points) {
    const auto [x, y] = place(p);
    taken.push_back({x - 0.02, x + 0.02, y});
  }
  const auto fits = [&](const LabelBox& box) {
    return box.left >= 0 && box.right <= 1 &&
           std::ranges::none_of(taken, [&](const LabelBox& other) { return box.meets(other); });
  };
  for (const RooflinePoint& p : points) {
    const auto [x, y] = place(p);
    const double width = 7 * double(p.name.size()) / kPhone, half = width / 2;
    plot.path("dot big", p.tone, dots_of({{x, y}}));
    for (const auto& [kind, top, box] :
         {std::tuple("end", y, LabelBox{x + 0.025, x + 0.025 + width, y}),
          {"start", y, LabelBox{x - 0.025 - width, x - 0.025, y}},
          {"x", y + 8, LabelBox{x - half, x + half, y + 16}},
          {"x", y - 24, LabelBox{x - half, x + half, y - 16}}})
      if (fits(box)) {
        plot.label(kind, x, top, p.name);
        taken.push_back(box);
        break;
      }
  }
}

std::string roofline(const Roofline& chart) {
  std::vector<RooflinePoint> points;
  Range flop_per_byte, flop_per_s;
  for (const RooflinePoint& p : chart.points)
    if (p.flop_per_byte > 0 && p.flop_per_s > 0) {
      points.push_back(p);
      flop_per_byte.add(p.flop_per_byte), flop_per_s.add(p.flop_per_s);
    }
  if (points.empty() || chart.ceilings.empty() || !(chart.bytes_per_s > 0)) return "";
  double roof = 0;
  for (const auto& [name, rate] : chart.ceilings) roof = std::max(roof, rate);
  const double knee = roof / chart.bytes_per_s;
  const Scale x = log_scale(flop_per_byte.low, std::max(flop_per_byte.high, 2 * knee)),
              y = log_scale(1e-9 * flop_per_s.low, 1e-9 * std::max(flop_per_s.high, roof));
  const auto y_of = [&](double rate) { return kRooflineHeight * (1 - y.at(1e-9 * rate)); };
  Plot plot(kRooflineHeight, room_beside(y), 2);
  draw_grid(plot, y, [&](double giga) { return y_of(1e9 * giga); });
  const double begin = std::max(x.low, 1e9 * y.low / chart.bytes_per_s);
  plot.line("one", x.at(begin), y_of(begin * chart.bytes_per_s), x.at(knee), y_of(roof));
  std::vector<LabelBox> taken;
  for (const auto& [name, rate] : chart.ceilings) {
    const double width = 7 * double(name.size()) / kPhone;
    plot.line("one", x.at(rate / chart.bytes_per_s), y_of(rate), 1, y_of(rate));
    plot.label("roof", 1, y_of(rate) - 18, name);
    taken.push_back({1 - width, 1, y_of(rate) - 10});
  }
  draw_points(plot, points, taken, [&](const RooflinePoint& p) {
    return PlotPoint{x.at(p.flop_per_byte), y_of(p.flop_per_s)};
  });
  plot.x_axis(x, "FLOP per byte");
  return figure(chart.title, chart.note, plot.html());
}

}  // namespace bellows
