// digits: synthetic handwriting, so that the first run needs no download. Each sample is a function
// of its split and index: a skeleton, bent and slanted, drawn with a pen, with clutter and noise.
#include <algorithm>
#include <array>
#include <cmath>
#include "data/sets/drawn.h"

namespace bellows {

namespace {

constexpr int kDigitSide = 28;
constexpr int kPieces = 6;  // line segments between two points of a stroke

using DigitsOptions = DrawnSizes<12000, 2000>;

// Skeletons: for each digit, the glyphs by which people write it. A glyph is a list of strokes, a
// stroke is a smooth curve through its points. x to the right, y down, in [0, 1].
struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

const std::vector<std::vector<Glyph>>& digit_glyphs() {
  // clang-format off
  static const std::vector<std::vector<Glyph>> glyphs = {
      // 0: a closed curve, one that does not quite close
      {{{{.5, .1}, {.27, .24}, {.2, .5}, {.27, .76}, {.5, .9}, {.73, .76}, {.8, .5}, {.73, .24},
         {.5, .1}, {.4, .13}}},
       {{{.6, .13}, {.34, .2}, {.24, .5}, {.32, .8}, {.55, .88}, {.74, .68}, {.75, .36},
         {.5, .14}}}},
      // 1: a bar, with a flag, with flag and base
      {{{{.52, .1}, {.5, .9}}},
       {{{.3, .32}, {.53, .1}}, {{.53, .1}, {.5, .9}}},
       {{{.34, .28}, {.52, .1}}, {{.52, .1}, {.5, .88}}, {{.3, .89}, {.7, .89}}}},
      // 2: with an angle at the foot, with a loop
      {{{{.24, .28}, {.36, .13}, {.57, .1}, {.74, .23}, {.69, .43}, {.48, .64}, {.23, .88}},
        {{.23, .88}, {.79, .87}}},
       {{{.25, .26}, {.42, .11}, {.66, .14}, {.71, .36}, {.5, .66}, {.28, .86}, {.23, .74},
         {.38, .73}, {.56, .86}, {.8, .82}}}},
      // 3: round, with a flat top
      {{{{.25, .19}, {.45, .1}, {.69, .19}, {.66, .38}, {.42, .47}},
        {{.42, .47}, {.68, .53}, {.76, .72}, {.52, .9}, {.23, .8}}},
       {{{.25, .12}, {.73, .12}}, {{.73, .12}, {.44, .42}},
        {{.44, .42}, {.7, .5}, {.76, .72}, {.52, .9}, {.23, .8}}}},
      // 4: open, closed
      {{{{.3, .12}, {.23, .56}}, {{.23, .56}, {.8, .55}}, {{.66, .14}, {.63, .9}}},
       {{{.63, .1}, {.2, .62}}, {{.2, .62}, {.82, .61}}, {{.63, .1}, {.62, .9}}}},
      // 5: the bar last, all in one go
      {{{{.31, .13}, {.28, .46}},
        {{.28, .46}, {.52, .4}, {.74, .53}, {.74, .75}, {.5, .9}, {.24, .81}},
        {{.31, .13}, {.75, .12}}},
       {{{.72, .12}, {.38, .14}},
        {{.38, .14}, {.3, .44}, {.56, .44}, {.74, .62}, {.62, .84}, {.26, .86}}}},
      // 6: leaning, upright
      {{{{.67, .12}, {.42, .27}, {.27, .58}, {.36, .85}, {.6, .88}, {.74, .7}, {.62, .54},
         {.4, .57}, {.29, .7}}},
       {{{.52, .1}, {.33, .36}, {.28, .68}, {.45, .9}, {.68, .78}, {.66, .58}, {.46, .54},
         {.3, .68}}}},
      // 7: plain, with a bar
      {{{{.22, .14}, {.77, .14}}, {{.77, .14}, {.55, .5}, {.43, .9}}},
       {{{.22, .16}, {.76, .13}}, {{.76, .13}, {.56, .5}, {.46, .9}}, {{.36, .5}, {.74, .48}}}},
      // 8: in one go, as two loops
      {{{{.68, .22}, {.5, .1}, {.32, .22}, {.4, .42}, {.62, .56}, {.72, .73}, {.5, .9}, {.28, .74},
         {.4, .54}, {.62, .4}, {.68, .22}}},
       {{{.5, .47}, {.32, .36}, {.34, .17}, {.52, .1}, {.68, .2}, {.66, .38}, {.5, .47}},
        {{.5, .47}, {.27, .62}, {.3, .84}, {.52, .9}, {.74, .8}, {.72, .6}, {.5, .47}}}},
      // 9: with a straight leg, with a hook
      {{{{.71, .26}, {.54, .11}, {.32, .22}, {.34, .44}, {.55, .5}, {.71, .3}},
        {{.72, .16}, {.7, .5}, {.64, .9}}},
       {{{.71, .28}, {.53, .1}, {.31, .24}, {.36, .46}, {.58, .46}, {.71, .28}, {.74, .55},
         {.62, .84}, {.34, .88}}}},
  };
  // clang-format on
  return glyphs;
}

// Maps a skeleton's unit square to pixels: a random wave, then a random affine map.
struct Hand {
  float xx, xy, yx, yy, x0, y0;
  float wave, fx, fy, px, py;

  explicit Hand(Draw& draw) {
    const float angle = draw.around(0, .15f), slant = draw.around(.1f, .24f);
    const float width = draw.between(13, 21), height = draw.between(16, 23);
    const float c = std::cos(angle), s = std::sin(angle);
    xx = c * width, xy = (c * slant - s) * height;
    yx = s * width, yy = (s * slant + c) * height;
    x0 = kDigitSide / 2.f + draw.between(-2.5f, 2.5f),
    y0 = kDigitSide / 2.f + draw.between(-2.5f, 2.5f);
    wave = draw.between(0, .06f);
    fx = draw.between(3, 8), fy = draw.between(3, 8);
    px = draw.between(0, 6.28f), py = draw.between(0, 6.28f);
  }
  Point operator()(Point p) const {
    const float x = p.x - .5f + wave * std::sin(fx * p.y + px);
    const float y = p.y - .5f + wave * std::sin(fy * p.x + py);
    return {x0 + xx * x + xy * y, y0 + yx * x + yy * y};
  }
};

using GrayCanvas = std::array<float, kDigitSide * kDigitSide>;

float distance(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy + 1e-6f;
  const float t = std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.f, 1.f);
  const float x = p.x - a.x - t * dx, y = p.y - a.y - t * dy;
  return std::sqrt(x * x + y * y);
}

// Draws a line segment with soft edges.
void draw_line(GrayCanvas& canvas, Point a, Point b, float radius, float ink) {
  const auto first = [&](float low) { return std::max(0, int(low - radius - 1)); };
  const auto last = [&](float high) { return std::min(kDigitSide - 1, int(high + radius + 1)); };
  for (int y = first(std::min(a.y, b.y)); y <= last(std::max(a.y, b.y)); ++y)
    for (int x = first(std::min(a.x, b.x)); x <= last(std::max(a.x, b.x)); ++x) {
      const float d = distance({x + .5f, y + .5f}, a, b);
      float& pixel = canvas[y * kDigitSide + x];
      pixel = std::max(pixel, ink * std::clamp(radius + .5f - d, 0.f, 1.f));
    }
}

// Returns a point of the Catmull-Rom spline between b (t = 0) and c (t = 1).
Point on_curve(Point a, Point b, Point c, Point d, float t) {
  const auto at = [t](float a, float b, float c, float d) {
    return .5f *
           (2 * b + t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))));
  };
  return {at(a.x, b.x, c.x, d.x), at(a.y, b.y, c.y, d.y)};
}

void draw_stroke(GrayCanvas& canvas, const Stroke& stroke, const Hand& hand, float radius,
                 float ink) {
  const int last = static_cast<int>(stroke.size()) - 1;
  Point from = hand(stroke[0]);
  for (int i = 0; i < last; ++i)
    for (int piece = 1; piece <= kPieces; ++piece) {
      const Point to = hand(on_curve(stroke[std::max(i - 1, 0)], stroke[i], stroke[i + 1],
                                     stroke[std::min(i + 2, last)], piece / float(kPieces)));
      draw_line(canvas, from, to, radius, ink);
      from = to;
    }
}

void draw_digit(GrayCanvas& canvas, Draw& draw, int64_t digit) {
  const auto& ways = digit_glyphs()[digit];
  Glyph glyph = ways[draw.below(static_cast<int64_t>(ways.size()))];
  const Hand hand(draw);
  const float unrest = draw.between(.01f, .04f), radius = draw.between(.7f, 1.6f);
  for (Stroke& stroke : glyph) {
    for (Point& p : stroke) p = {draw.around(p.x, unrest), draw.around(p.y, unrest)};
    draw_stroke(canvas, stroke, hand, radius, 1);
  }
}

// Draws pieces of lines near the edges, as on a form.
void draw_clutter(GrayCanvas& canvas, Draw& draw) {
  const auto near_edge = [&draw](float angle) {
    const float r = kDigitSide * draw.between(.42f, .6f);
    return Point{kDigitSide / 2.f + r * std::cos(angle), kDigitSide / 2.f + r * std::sin(angle)};
  };
  for (int64_t lines = draw.below(4); lines > 1; --lines) {
    const float angle = draw.between(0, 6.28f);
    const Point from = near_edge(angle), to = near_edge(angle + draw.between(.2f, .9f));
    const float radius = draw.between(.5f, 1), ink = draw.between(.4f, 1);
    draw_line(canvas, from, to, radius, ink);
  }
}

uint8_t draw_sample(Draw& draw, uint8_t* pixels) {
  const auto digit = static_cast<uint8_t>(draw.below(10));
  GrayCanvas canvas{};
  draw_digit(canvas, draw, digit);
  draw_clutter(canvas, draw);
  const float ink = draw.between(.6f, 1), noise = draw.between(0, .25f) / 255;
  expose(draw, canvas.size(), pixels, noise, [&](size_t i) { return canvas[i] * ink; });
  return digit;
}

}  // namespace

static DatasetPtr make_digits(const DigitsOptions& o, const DatasetContext& c) {
  const DatasetInfo info{.input = {DType::u8, {1, kDigitSide, kDigitSide}},
                         .classes = 10,
                         .mean = {0.1032f},
                         .std = {0.2286f}};
  return drawn_dataset(info, c.split, o.of(c.split), "digits", draw_sample);
}

static const AddDataset digits_entry("digits", "digits drawn by the program, 28x28", &make_digits,
                                     {"toy", "fake", "synthetic"});

}  // namespace bellows
