// Figures of a page. Lines and areas are inline SVG that is stretched to the width of the page;
// their text is HTML at its normal size, so it can be read on a phone. All strings are plain text,
// which the charts escape.
#pragma once
#include <string>
#include <vector>

namespace bellows {

// Colors: the accent, the one compared with it, and the quiet one.
enum class Tone { accent, other, quiet };

struct Series {
  std::string name;
  Tone tone = Tone::accent;
  std::vector<double> x = {}, y = {};  // x ascends; pairs that are not finite are left out
};

enum class YAxis { fitted, from_zero, log };
// Lines over a common x, each with its name and last value at its end.
struct LineChart {
  std::string title, note = {}, unit = {};  // unit of y, after each value: " ms"
  std::string x_name = "step";
  std::vector<Series> series = {};
  YAxis y_axis = YAxis::fitted;
  bool stacked = false;  // areas, the first at the bottom
};
std::string line_chart(const LineChart& chart);  // "" if no series has two points

// Distributions on a common axis: a dot for each value, a lane for each process, and the median.
struct Strip {
  std::string name, text;  // text: the numbers
  Tone tone;
  std::vector<std::vector<double>> lanes;
};
std::string strip_chart(const std::string& title, const std::string& note, const std::string& unit,
                        const std::vector<Strip>& strips);

// Ratios with their intervals on a logarithmic axis around 1. `noise`: shaded from 1/noise to
// noise.
struct RatioRow {
  std::string name, text;
  Tone tone;
  double ratio, low, high;
};
std::string ratio_chart(const std::string& title, const std::string& note, double noise,
                        const std::vector<RatioRow>& rows);

// Parts of a whole, as one bar with a legend that holds the numbers.
struct Part {
  std::string name;
  double value;
  std::string text;
};
std::string share_bar(const std::string& title, const std::string& note,
                      const std::vector<Part>& parts);

}  // namespace bellows
