// shapes: synthetic color images of one of ten outlines, at a random place, size and angle. Colors
// and textures do not depend on the class.
//
// shapes_jpeg: these images, enlarged to different sizes, as JPEG files in memory. Exercises the
// same pipeline as a folder of JPEG files, without any files.
#include <algorithm>
#include <array>
#include <cmath>
#include "data/images/image_file.h"
#include "data/images/image_plan.h"
#include "data/sets/drawn.h"

namespace bellows {

namespace {

constexpr float kTurn = 6.2832f;
constexpr int kShapeSide = 32;

using ShapesOptions = DrawnSizes<10000, 2000>;

// ---- outlines

// Signed distance to an outline's edge, negative inside, exact enough for soft edges. All outlines
// fit into the unit disc. No two are equal up to rotation and scale.
struct Outline {
  const char* name;
  float (*at)(float x, float y);
};

float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

constexpr Outline kOutlines[] = {
    {"disc", [](float x, float y) { return std::hypot(x, y) - .85f; }},
    {"ring", [](float x, float y) { return std::abs(std::hypot(x, y) - .7f) - .22f; }},
    {"square", [](float x, float y) { return box(x, y, .75f, .75f); }},
    {"frame", [](float x, float y) { return std::abs(box(x, y, .55f, .55f)) - .19f; }},
    {"triangle",
     [](float x, float y) { return std::max(.866f * std::abs(x) + .5f * y, -y) - .5f; }},
    {"bar", [](float x, float y) { return box(x, y, .95f, .27f); }},
    {"cross",
     [](float x, float y) { return std::min(box(x, y, .95f, .27f), box(x, y, .27f, .95f)); }},
    {"corner",
     [](float x, float y) {
       return std::min(box(x + .5f, y, .24f, .75f), box(x, y - .5f, .75f, .24f));
     }},
    {"crescent",
     [](float x, float y) {
       return std::max(std::hypot(x, y) - .95f, .8f - std::hypot(x - .5f, y));
     }},
    {"star",
     [](float x, float y) {
       const float turn = 1.2566f, angle = std::atan2(x, -y);
       const float t = std::abs(angle - turn * std::round(angle / turn)), r = std::hypot(x, y);
       return .81f * r * std::sin(t) + .59f * r * std::cos(t) - .55f;
     }},
};

// ---- drawing

using Color = std::array<float, 3>;  // red, green, blue in [0, 1]

Color any_color(Draw& draw) { return {draw.between(0, 1), draw.between(0, 1), draw.between(0, 1)}; }
Color mixed(const Color& a, const Color& b, float share) {
  return {a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share};
}
float distance(const Color& a, const Color& b) {
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}
// Returns a random color that clearly differs from `other`. Two of three random colors do.
Color unlike(const Color& other, Draw& draw) {
  for (;;) {
    const Color color = any_color(draw);
    if (distance(color, other) > .9f) return color;
  }
}

// A color with waves of a similar color: stripes or, if two waves cross, patches.
struct Texture {
  Color color, wave_color;
  float fx, fy, gx, gy, phase;

  Texture(const Color& base, Draw& draw) : color(base) {
    wave_color = mixed(base, any_color(draw), draw.between(0, .3f));
    const float angle = draw.between(0, kTurn), pitch = draw.between(.3f, 1.2f);
    fx = pitch * std::cos(angle), fy = pitch * std::sin(angle);
    const bool patches = draw.below(2);
    gx = patches ? -fy : 0, gy = patches ? fx : 0;
    phase = draw.between(0, kTurn);
  }
  Color at(float x, float y) const {
    const float wave = std::sin(fx * x + fy * y + phase) * std::cos(gx * x + gy * y);
    return mixed(color, wave_color, .5f + .5f * wave);
  }
};

// Maps pixels to the outline's unit disc.
struct Pose {
  float x0, y0, radius, c, s;

  explicit Pose(Draw& draw) {
    radius = draw.between(7.5f, 13);
    const float reach = kShapeSide / 2.f - .85f * radius, angle = draw.between(0, kTurn);
    x0 = kShapeSide / 2.f + draw.between(-reach, reach),
    y0 = kShapeSide / 2.f + draw.between(-reach, reach);
    c = std::cos(angle) / radius, s = std::sin(angle) / radius;
  }
  // Returns the fraction of the pixel at (x, y) that the outline covers.
  float cover(const Outline& outline, float x, float y) const {
    const float dx = x - x0, dy = y - y0;
    return std::clamp(.5f - radius * outline.at(c * dx + s * dy, c * dy - s * dx), 0.f, 1.f);
  }
};

using ColorCanvas = std::array<Color, kShapeSide * kShapeSide>;

template <class Cover> void paint(ColorCanvas& canvas, const Texture& texture, const Cover& cover) {
  for (int y = 0; y < kShapeSide; ++y)
    for (int x = 0; x < kShapeSide; ++x) {
      Color& pixel = canvas[y * kShapeSide + x];
      const float share = cover(x + .5f, y + .5f);
      if (share > 0) pixel = mixed(pixel, texture.at(x, y), share);
    }
}

// Paints specks over everything else.
void paint_specks(ColorCanvas& canvas, Draw& draw) {
  for (int64_t specks = draw.below(6); specks > 0; --specks) {
    const float x0 = draw.between(0, kShapeSide), y0 = draw.between(0, kShapeSide);
    const float radius = draw.between(.8f, 2.2f);
    paint(canvas, Texture(any_color(draw), draw), [&](float x, float y) {
      return std::clamp(radius + .5f - std::hypot(x - x0, y - y0), 0.f, 1.f);
    });
  }
}

// Writes one image to `pixels`, (3, kShapeSide, kShapeSide); returns the class of the shape.
uint8_t draw_shape(Draw& draw, uint8_t* pixels) {
  const auto shape = static_cast<uint8_t>(draw.below(std::size(kOutlines)));
  const Color back = any_color(draw), front = unlike(back, draw);
  const Pose pose(draw);
  ColorCanvas canvas{};
  paint(canvas, Texture(back, draw), [](float, float) { return 1.f; });
  paint(canvas, Texture(front, draw),
        [&](float x, float y) { return pose.cover(kOutlines[shape], x, y); });
  paint_specks(canvas, draw);
  const float noise = draw.between(.02f, .15f) / 255;
  const size_t plane = canvas.size();
  expose(draw, 3 * plane, pixels, noise, [&](size_t i) { return canvas[i % plane][i / plane]; });
  return shape;
}

// Describes a data set of shapes whose images have that side; 0: they differ in size.
DatasetInfo shapes_info(int64_t side) {
  std::vector<std::string> names;
  for (const Outline& outline : kOutlines) names.emplace_back(outline.name);
  return {.input = {DType::u8, {3, side, side}},
          .classes = std::size(kOutlines),
          .names = names,
          .mean = {0.5f, 0.5f, 0.5f},
          .std = {0.27f, 0.27f, 0.27f}};
}

// ---- as JPEG files

using Sizes = DrawnSizes<2000, 500>;
struct ShapesJpegOptions : Sizes {
  int64_t min_side = 64, max_side = 160;
};
void visit(Visitor& v, ShapesJpegOptions& o) {
  visit(v, static_cast<Sizes&>(o));
  v("min_side", o.min_side, "smallest side of an image, in pixels", {.min = 1, .max = 4096});
  v("max_side", o.max_side, "largest side of an image, in pixels", {.min = 1, .max = 4096});
}

class ShapesJpeg : public Dataset {
 public:
  explicit ShapesJpeg(std::vector<EncodedSample> files)
      : Dataset(shapes_info(0)), files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const override {
    return decode_image(files_[index], scratch, wanted);
  }
  std::optional<EncodedSample> encoded(int64_t index) const override { return files_[index]; }
  std::string origin(int64_t) const override { return "shapes_jpeg"; }

 private:
  std::vector<EncodedSample> files_;
};

// Enlarges the image and encodes it.
std::vector<uint8_t> encode(const uint8_t* pixels, int64_t height, int64_t width) {
  const Shape shape{3, kShapeSide, kShapeSide};
  ImagePlan image(shape);
  image.resize(height, width);
  return encode_jpeg(interleaved_bytes(image, {pixels, shape}).data(), height, width, 90);
}

EncodedSample draw_file(Draw& draw, const ShapesJpegOptions& o) {
  uint8_t pixels[3 * kShapeSide * kShapeSide];
  const int64_t label = draw_shape(draw, pixels);
  const auto side = [&] { return o.min_side + draw.below(o.max_side - o.min_side + 1); };
  const int64_t height = side(), width = side();
  return {encode(pixels, height, width), label};
}

}  // namespace

static DatasetPtr make_shapes(const ShapesOptions& o, const DatasetContext& c) {
  return drawn_dataset(shapes_info(kShapeSide), c.split, o.of(c.split), "shapes", draw_shape);
}

static const AddDataset shapes_entry("shapes", "outlines drawn by the program, 3x32x32",
                                     &make_shapes);

static DatasetPtr make_shapes_jpeg(const ShapesJpegOptions& o, const DatasetContext& c) {
  CHECK(o.min_side <= o.max_side, "shapes_jpeg: sides from ", o.min_side, " to ", o.max_side);
  std::vector<EncodedSample> files(o.of(c.split));
  parallel_for(static_cast<int64_t>(files.size()), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Draw draw(c.split, i);
      files[i] = draw_file(draw, o);
    }
  });
  return std::make_shared<ShapesJpeg>(std::move(files));
}

static const AddDataset shapes_jpeg_entry("shapes_jpeg", "the shapes as JPEG files of any size",
                                          &make_shapes_jpeg);

}  // namespace bellows
