#include "trainer/page/figure.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "trainer/page/html.h"

namespace bellows {

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
    list.push_back(std::stod(fmt::format("{:.{}g}", value, digits)));
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

std::string path_of(std::span<const PlotPoint> points) {
  std::string d;
  for (const PlotPoint& p : points)
    d += fmt::format("{}{:.4g} {:.4g}", d.empty() ? "M" : "L", kWidth * p.x, p.y);
  return d;
}

std::string dots_of(std::span<const PlotPoint> points) {
  std::string d;
  for (const PlotPoint& p : points) d += fmt::format("M{:.5g} {:.4g}h0", kWidth * p.x, p.y);
  return d;
}

std::string row_title(const std::string& name, const std::string& text, Tone tone) {
  return fmt::format("<p class=row><b class={}>{}</b> <span>{}</span></p>\n", letter_of(tone),
                     escaped(name), escaped(text));
}

}  // namespace bellows
