// Axes, the frame of a figure, its plot, and paths of SVG, for the charts. Strings are plain text
// and are escaped here, unless they are named html.
#pragma once
#include "labs/page/charts.h"

namespace bellows {

// The axis of a chart: where a value lies, and its ticks.
struct Scale {
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<double> ticks = {};

  double at(double value) const;  // 0 at low, 1 at high
};

// `count`: ticks to aim at. The ends are those of the data.
Scale scale_over(double low, double high, int count);
// The ends are ticks.
Scale scale_around(double low, double high, int count);
// For low > 0; the ends are those of the data, a little widened.
Scale log_scale(double low, double high);

char letter_of(Tone tone);  // class of an element: a, b, c, g

std::string figure(const std::string& title, const std::string& note, const std::string& html);

// Part of a figure that is `height` px high and as wide as there is room. x is from 0 to 1, y in px
// from the top. `left`, `right`: room beside it for labels, in characters.
class Plot {
 public:
  Plot(double height, size_t left, size_t right) : height_(height), left_(left), right_(right) {}
  void path(const std::string& kind, Tone tone, const std::string& d);
  void line(const char* kind, double x1, double y1, double x2, double y2);
  void label(const char* kind, double x, double y, const std::string& text);
  void x_axis(const Scale& scale, const std::string& name);
  void label_html(const char* kind, double x, double y, const std::string& html);
  // A slice of time; its name shows if there is room, `about` below the pointer.
  void slice(Tone tone, double x1, double x2, double y, const std::string& name,
             const std::string& about);
  // Values for the script, which shows those below the pointer.
  void values(double x_low, double x_high, const std::vector<Series>& series);
  std::string html() const;

 private:
  double height_;
  size_t left_, right_;
  std::string svg_, labels_, data_;
};

struct PlotPoint {
  double x, y;
};
std::string path_of(const std::vector<PlotPoint>& points);  // one line through all
std::string dots_of(const std::vector<PlotPoint>& points);  // for a round line cap

}  // namespace bellows
