#include "labs/plan/scaling_chart.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "labs/page/page.h"

namespace bellows {

static constexpr double kLeft = 60, kRight = 700, kTop = 50, kBottom = 360;  // ends of the axes

static std::string label(double x, double y, const std::string& text, const char* anchor,
                         const char* color = "black") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n",
                     x, y, anchor, color, escaped(text));
}

std::string scaling_chart(const std::string& title, const std::vector<int64_t>& ranks,
                          const std::vector<ScalingLine>& lines) {
  static constexpr const char* colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};
  const double low = std::log2(double(ranks.front())),
               wide = std::max(1.0, std::log2(double(ranks.back())) - low);
  const auto x_of = [&](int64_t n) {
    return kLeft + (std::log2(double(n)) - low) / wide * (kRight - kLeft);
  };
  const auto y_of = [](double share) { return kBottom - share * (kBottom - kTop); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 400\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"740\" height=\"400\" fill=\"white\"/>\n" +
      label(kLeft, 20, title, "start");
  for (int tenths = 0; tenths <= 10; tenths += 2) {
    const double y = y_of(tenths / 10.0);
    svg += fmt::format("<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                       kLeft, y, kRight, y);
    svg += label(kLeft - 8, y + 4, fmt::format("{} %", 10 * tenths), "end");
  }
  for (const int64_t n : ranks) svg += label(x_of(n), kBottom + 18, std::to_string(n), "middle");
  svg += label((kLeft + kRight) / 2, kBottom + 36, "ranks", "middle");
  for (size_t i = 0; i < lines.size(); ++i) {
    const char* const color = colors[i % std::size(colors)];
    std::string points;
    for (size_t k = 0; k < ranks.size(); ++k)
      points += fmt::format("{}{:.1f},{:.1f}", k ? " " : "", x_of(ranks[k]),
                            y_of(lines[i].efficiency[k]));
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       points, color);
    svg += label(kLeft + 160 * double(i), 40, lines[i].name, "start", color);
  }
  return svg + "</svg>\n";
}

}  // namespace bellows
