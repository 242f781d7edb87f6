// Horizontal bars, and tables whose cells are the darker the larger.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "trainer/page/figure.h"
#include "trainer/page/html.h"

namespace bellows {

std::string bar_chart(const std::string& title, const std::string& note,
                      const std::vector<Bar>& bars) {
  double most = 0;
  for (const Bar& bar : bars)
    for (const double value : {bar.value, bar.before, bar.high})
      if (std::isfinite(value)) most = std::max(most, value);
  if (!(most > 0)) return "";
  const auto percent = [&](double value) { return 100 * std::clamp(value / most, 0.0, 1.0); };
  const bool noted = std::ranges::any_of(bars, [](const Bar& bar) { return !bar.note.empty(); });
  std::string html;
  for (const Bar& bar : bars) {
    std::string track;
    if (std::isfinite(bar.before) && bar.before > bar.value)
      track += fmt::format("<i class=before style=\"width:{:.2f}%\"></i>", percent(bar.before));
    if (std::isfinite(bar.value))
      track += fmt::format("<i class={} style=\"width:{:.2f}%\"></i>", letter_of(bar.tone),
                           percent(bar.value));
    if (std::isfinite(bar.low) && std::isfinite(bar.high))
      track += fmt::format("<u style=\"left:{:.2f}%;right:{:.2f}%\"></u>", percent(bar.low),
                           100 - percent(bar.high));
    html += fmt::format("<div><b>{}</b><em>{}</em>{}<span>{}</span></div>\n", escaped(bar.name),
                        escaped(bar.text),
                        noted ? "<em class=more>" + escaped(bar.note) + "</em>" : "", track);
  }
  return figure(title, note,
                fmt::format("<div class=\"bars{}\">\n", noted ? " noted" : "") + html + "</div>\n");
}

std::string heat_table(const std::string& title, const std::string& note, const HeatMap& map) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& row : map.values)
    for (const double value : row)
      if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  if (!std::isfinite(low)) return "";
  std::string html = fmt::format("<div class=wide><table class=heat><thead><tr><th>{}</th>",
                                 escaped(map.rows_name + " ↓  " + map.columns_name + " →"));
  for (const std::string& column : map.columns)
    html += fmt::format("<th class=r>{}</th>", escaped(column));
  html += "</tr></thead><tbody>\n";
  for (size_t r = 0; r < map.values.size(); ++r) {
    html += fmt::format("<tr><td>{}</td>", escaped(map.rows.at(r)));
    for (const double value : map.values[r]) {
      const double share = high > low ? (value - low) / (high - low) : 0;
      html += fmt::format("<td class=r style=\"--h:{:.0f}%\">{}</td>",
                          std::isfinite(share) ? 5 + 50 * share : 0, short_number(value));
    }
    html += "</tr>\n";
  }
  return figure(title, note, html + "</tbody></table></div>\n");
}

}  // namespace bellows
