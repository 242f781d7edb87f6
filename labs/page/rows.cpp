// Figures of rows: distributions as strips of dots, ratios as points with intervals, parts of a
// whole as a bar, horizontal bars, and tables that shade larger values darker.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "core/base/statistics.h"
#include "labs/page/figure.h"
#include "labs/page/html.h"

namespace bellows {

constexpr size_t kMargin = 2;  // characters beside a plot, for the last digits of its axis

static std::string axis_below(const Scale& scale, const std::string& name) {
  Plot axis(1, kMargin, kMargin);
  axis.line("grid", 0, 0, 1, 0);
  axis.x_axis(scale, name);
  return axis.html();
}

// A row above its own plot: name at the left, numbers at the right.
static std::string row_title(const std::string& name, const std::string& text, Tone tone) {
  return fmt::format("<p class=row><b class={}>{}</b> <span>{}</span></p>\n", letter_of(tone),
                     escaped(name), escaped(text));
}

static Scale scale_of(const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  if (low > 0 && high > 3 * low) return log_scale(low, high);
  const double room = 0.03 * (high > low ? high - low : std::abs(high) + 1e-12);
  return scale_over(low - room, high + room, 5);
}

std::string strip_chart(const std::string& title, const std::string& note, const std::string& unit,
                        const std::vector<Strip>& strips) {
  std::vector<double> all;
  for (const Strip& strip : strips)
    for (const auto& lane : strip.lanes) all.insert(all.end(), lane.begin(), lane.end());
  if (all.empty()) return "";
  const Scale x = scale_of(all);
  std::string html;
  for (const Strip& strip : strips) {
    const double lane_height = strip.lanes.size() > 12 ? 5 : 8,
                 height = lane_height * (double(strip.lanes.size()) + 1);
    Plot plot(height, kMargin, kMargin);
    for (const double tick : x.ticks) plot.line("grid", x.at(tick), 0, x.at(tick), height);
    std::vector<PlotPoint> dots;
    std::vector<double> values;
    double y = lane_height;
    for (const auto& lane : strip.lanes) {
      for (const double value : lane) dots.push_back({x.at(value), y});
      values.insert(values.end(), lane.begin(), lane.end());
      y += lane_height;
    }
    plot.path("dot some", strip.tone, dots_of(dots));
    if (!values.empty()) plot.line("median", x.at(median(values)), 0, x.at(median(values)), height);
    html += row_title(strip.name, strip.text, strip.tone) + plot.html();
  }
  return figure(title, note, html + axis_below(x, unit));
}

std::string ratio_chart(const std::string& title, const std::string& note, double noise,
                        const std::vector<RatioRow>& rows) {
  double low = std::min(1 / noise, 0.98), high = std::max(noise, 1.02);
  const auto bounded = [](double value) { return std::isfinite(value) && value > 0; };
  for (const RatioRow& row : rows)
    for (const double value : {row.ratio, row.low, row.high})
      if (bounded(value)) low = std::min(low, value), high = std::max(high, value);
  const Scale x = log_scale(low, high);
  std::string html;
  for (const RatioRow& row : rows) {
    constexpr double kHeight = 26;
    Plot plot(kHeight, kMargin, kMargin);
    const std::vector<PlotPoint> band = {
        {x.at(1 / noise), 0}, {x.at(noise), 0}, {x.at(noise), kHeight}, {x.at(1 / noise), kHeight}};
    plot.path("noise", Tone::quiet, path_of(band) + "Z");
    plot.line("one", x.at(1), 0, x.at(1), kHeight);
    if (bounded(row.low) && bounded(row.high))
      plot.path("bar", row.tone,
                path_of({{x.at(row.low), kHeight / 2}, {x.at(row.high), kHeight / 2}}));
    plot.path("dot big", row.tone, dots_of({{x.at(row.ratio), kHeight / 2}}));
    html += row_title(row.name, row.text, row.tone) + plot.html();
  }
  return figure(title, note, html + axis_below(x, "times as fast"));
}

std::string share_bar(const std::string& title, const std::string& note,
                      const std::vector<Share>& parts) {
  double whole = 0;
  for (const Share& part : parts) whole += part.value;
  if (!(whole > 0)) return "";
  std::string bar, legend;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int color = parts[i].color < 0 ? static_cast<int>(i) : parts[i].color;
    bar += fmt::format("<i class=p{} style=\"width:{:.3f}%\"></i>", color,
                       100 * parts[i].value / whole);
    legend +=
        fmt::format("<li><i class=p{}></i>{} <b>{}</b> {}</li>\n", color, escaped(parts[i].name),
                    percent_text(parts[i].value / whole), escaped(parts[i].text));
  }
  return figure(title, note,
                fmt::format("<div class=bar>{}</div>\n<ul class=legend>\n{}</ul>\n", bar, legend));
}

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
