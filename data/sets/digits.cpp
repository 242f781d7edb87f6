// digits: synthetic handwriting, so that the first run needs no download. Each sample is a function
// of its split and index: a skeleton, bent and slanted, drawn with a pen, with clutter and noise.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include "data/sets/digit_strokes.h"
#include "data/sets/drawn.h"

namespace bellows {

namespace {

constexpr int kDigitSide = 28;
constexpr int kPieces = 6;  // line segments between two points of a stroke

using DigitsOptions = DrawnSizes<12000, 2000>;

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

// Converts to bytes and adds noise: for each pixel a random byte, scaled to [-1/2, 1/2] of a random
// amplitude.
void expose(const GrayCanvas& canvas, Draw& draw, uint8_t* pixels) {
  const float ink = draw.between(.6f, 1), noise = draw.between(0, .25f) / 255;
  for (size_t i = 0; i < canvas.size(); i += 16) {
    const auto random = std::bit_cast<std::array<uint8_t, 16>>(draw.block());
    for (size_t j = 0; j < 16; ++j) {
      const float grey = canvas[i + j] * ink + noise * (float(random[j]) - 127.5f);
      pixels[i + j] = static_cast<uint8_t>(255 * std::clamp(grey, 0.f, 1.f));
    }
  }
}

uint8_t draw_sample(Draw& draw, uint8_t* pixels) {
  const auto digit = static_cast<uint8_t>(draw.below(10));
  GrayCanvas canvas{};
  draw_digit(canvas, draw, digit);
  draw_clutter(canvas, draw);
  expose(canvas, draw, pixels);
  return digit;
}

}  // namespace

static DatasetPtr make_digits(const DigitsOptions& o, const DatasetContext& c) {
  const DatasetInfo info{
      .sample = {1, kDigitSide, kDigitSide}, .classes = 10, .mean = {0.1032f}, .std = {0.2286f}};
  return drawn_dataset(info, c.split, o.of(c.split), "digits", draw_sample);
}

static const AddEntry<MakeDataset> digits_entry("digits", "digits drawn by the program, 28x28",
                                                &make_digits);

}  // namespace bellows
