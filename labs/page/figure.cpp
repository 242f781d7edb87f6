#include "labs/page/figure.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "labs/page/html.h"

namespace bellows {

// ---- axes

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
  if (!(low > 0 && high / low < 1e200)) return scale_over(low, high, 5);
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

// ---- figures

constexpr double kWidth = 1000;  // of the SVG's own coordinates, which are stretched

char letter_of(Tone tone) { return "abcg"[size_t(tone)]; }

std::string figure(const std::string& title, const std::string& note, const std::string& html) {
  return fmt::format("<figure>\n<figcaption><b>{}</b> {}</figcaption>\n{}</figure>\n",
                     escaped(title), escaped(note), html);
}

void Plot::path(const std::string& kind, Tone tone, const std::string& d) {
  svg_ += fmt::format("<path class=\"{} {}\" d=\"{}\"/>\n", kind, letter_of(tone), d);
}

void Plot::line(const char* kind, double x1, double y1, double x2, double y2) {
  svg_ += fmt::format("<path class={} d=\"M{:.5g} {:.5g}L{:.5g} {:.5g}\"/>\n", kind, kWidth * x1,
                      y1, kWidth * x2, y2);
}

void Plot::label_html(const char* kind, double x, double y, const std::string& html) {
  labels_ += fmt::format("<span class={} style=\"left:{:.4g}%;top:{:.4g}px\">{}</span>\n", kind,
                         100 * x, y, html);
}

void Plot::label(const char* kind, double x, double y, const std::string& text) {
  label_html(kind, x, y, escaped(text));
}

void Plot::slice(Tone tone, double x1, double x2, double y, const std::string& name,
                 const std::string& about) {
  constexpr double kNamed = 0.03;  // of the plot; narrower ones never have room
  labels_ += fmt::format(
      "<span class=\"slice {}\" style=\"left:{:.2f}%;width:{:.2f}%;top:{:.4g}px\" title=\"{}\">{}"
      "</span>\n",
      letter_of(tone), 100 * x1, 100 * (x2 - x1), y, escaped(about),
      x2 - x1 > kNamed ? "<b>" + escaped(name) + "</b>" : "");
}

// In few digits; a value that JSON lacks was left out before.
static Json rounded(const std::vector<double>& values, int digits) {
  Json list = Json::array();
  for (const double value : values)
    list.push_back(std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr));
  return list;
}

void Plot::values(double x_low, double x_high, const std::vector<Series>& series) {
  Json list = Json::array();
  for (const Series& s : series)
    list.push_back({s.name, std::string(1, letter_of(s.tone)), rounded(s.x, 12), rounded(s.y, 5)});
  data_ = fmt::format(" data-v=\"{}\"", escaped(to_line({x_low, x_high, list})));
}

void Plot::x_axis(const Scale& scale, const std::string& name) {
  for (const double tick : scale.ticks) {
    const double x = scale.at(tick);
    line("tick", x, height_, x, height_ + 4);
    label("x", x, height_ + 6, short_number(tick));
  }
  label("xn", 1, height_ + 22, name);
}

std::string Plot::html() const {
  return fmt::format(
      "<div class=plot style=\"height:{0}px;margin-left:{1}ch;margin-right:{2}ch\"{3}>"
      "<svg viewBox=\"0 0 {4} {0}\" preserveAspectRatio=none aria-hidden=true>\n{5}</svg>\n{6}"
      "</div>\n",
      height_, left_, right_, data_, kWidth, svg_, labels_);
}

std::string path_of(const std::vector<PlotPoint>& points) {
  std::string d;
  for (const PlotPoint& p : points)
    d += fmt::format("{}{:.4g} {:.4g}", d.empty() ? "M" : "L", kWidth * p.x, p.y);
  return d;
}

std::string dots_of(const std::vector<PlotPoint>& points) {
  std::string d;
  for (const PlotPoint& p : points) d += fmt::format("M{:.5g} {:.4g}h0", kWidth * p.x, p.y);
  return d;
}

}  // namespace bellows
