// Figures of a page. Lines and areas are inline SVG that is stretched to the width of the page;
// their text is HTML at its normal size, so it can be read on a phone. All strings are plain text,
// which the charts escape.
#pragma once
#include <cmath>
#include <string>
#include <vector>

namespace bellows {

// Colors: the accent, the one compared with it, the quiet one, and that of gaps in time.
enum class Tone { accent, other, quiet, gap };

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
  struct Interval {
    double x, low, high;
  };
  std::vector<Interval> intervals = {};  // of points
  double mark = NAN;                     // x of a vertical line
  std::string mark_name = {};
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
struct Share {
  std::string name;
  double value;
  std::string text;
  int color = -1;  // 0 accent, 1 other, 2 and 3 the same paler, 4 quiet, 5 faint; -1: by position
};
std::string share_bar(const std::string& title, const std::string& note,
                      const std::vector<Share>& parts);

// Amounts from zero on. Values that are NAN are not drawn.
struct Bar {
  std::string name, text;  // text: the numbers
  double value;
  Tone tone = Tone::accent;
  double low = NAN, high = NAN;  // interval
  double before = NAN;           // a larger value that this one replaces, drawn pale
  std::string note = {};         // further numbers, in a column of their own
};
std::string bar_chart(const std::string& title, const std::string& note,
                      const std::vector<Bar>& bars);  // "" if all are 0

// A table whose cells are the darker the larger.
struct HeatMap {
  std::string rows_name, columns_name;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // by row
};
std::string heat_table(const std::string& title, const std::string& note, const HeatMap& map);

// A stretch of time, in ms from 0: lanes of slices, and below them a quantity.
struct LaneSlice {
  std::string name, about;  // about: for the pointer
  Tone tone;
  double begin, end;
};
struct Lane {
  std::string name;
  std::vector<LaneSlice> slices;
};
struct LanesChart {
  std::string title, note;
  double ms;
  std::vector<Lane> lanes;
  std::vector<std::pair<Tone, std::string>> legend = {};
  Series below = {};
  std::string unit = {};  // of y of `below`
};
std::string lanes_chart(const LanesChart& chart);

// FLOP/s over FLOP per byte, both logarithmic, below the ceilings of a machine.
struct RooflinePoint {
  std::string name;
  Tone tone;
  double flop_per_byte, flop_per_s;
};
struct Roofline {
  std::string title, note;
  double bytes_per_s;
  std::vector<std::pair<std::string, double>> ceilings;  // FLOP/s
  std::vector<RooflinePoint> points;                     // first ones are named where there is room
};
std::string roofline(const Roofline& chart);  // "" without a point

}  // namespace bellows
