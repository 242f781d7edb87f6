// write_image does in one pass what the steps of a ImagePlan do one after the other.
#include "data/images/image_plan.h"
#include "core/base/philox.h"
#include "core/tensor/safetensors.h"
#include "tests/matchers.h"
#include "tests/place.h"

using namespace bellows;

// Reference: an image in memory, and each step by its definition, with an image in between.
struct Stored {
  int64_t channels, height, width;
  std::vector<double> pixels;  // (C, H, W)

  Stored(int64_t c, int64_t h, int64_t w) : channels(c), height(h), width(w), pixels(c * h * w) {}
  double& at(int64_t c, int64_t y, int64_t x) { return pixels[(c * height + y) * width + x]; }

  template <class Fn> Stored filled(int64_t h, int64_t w, const Fn& fn) {
    Stored made(channels, h, w);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t y = 0; y < h; ++y)
        for (int64_t x = 0; x < w; ++x) made.at(c, y, x) = fn(c, y, x);
    return made;
  }
  Stored cropped(const Rectangle& r, Outside outside) {
    const auto inside = [](int64_t i, int64_t n) {
      while (i < 0 || i >= n) i = i < 0 ? -i : 2 * (n - 1) - i;
      return i;
    };
    return filled(r.height, r.width, [&](int64_t c, int64_t y, int64_t x) {
      y += r.top, x += r.left;
      const bool out = y < 0 || x < 0 || y >= height || x >= width;
      if (out && outside == Outside::zeros) return 0.;
      return at(c, inside(y, height), inside(x, width));
    });
  }
  Stored mirrored() {
    return filled(height, width,
                  [&](int64_t c, int64_t y, int64_t x) { return at(c, y, width - 1 - x); });
  }
  // Weights of the n source pixels for pixel i of m: an antialiased triangle filter.
  static std::vector<double> triangle(int64_t i, int64_t m, int64_t n) {
    const double step = double(n) / double(m), reach = std::max(1., step);
    std::vector<double> weights(n);
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      weights[j] = std::max(0., 1 - std::abs(double(j) + .5 - (double(i) + .5) * step) / reach);
      sum += weights[j];
    }
    for (double& w : weights) w /= sum;
    return weights;
  }
  Stored resized(int64_t h, int64_t w) {
    return filled(h, w, [&](int64_t c, int64_t y, int64_t x) {
      const auto down = triangle(y, h, height), across = triangle(x, w, width);
      double sum = 0;
      for (int64_t j = 0; j < height; ++j)
        for (int64_t i = 0; i < width; ++i) sum += down[j] * across[i] * at(c, j, i);
      return sum;
    });
  }
};

// Random bytes, as a planar and as an interleaved sample.
struct Source {
  Shape shape;
  std::vector<uint8_t> planar, interleaved;

  Source(Shape s, uint64_t seed) : shape(s), planar(s.numel()), interleaved(s.numel()) {
    const Philox rng(RngKey{.seed = seed});
    const int64_t plane = s[1] * s[2];
    for (int64_t i = 0; i < s.numel(); ++i)
      planar[i] = interleaved[i % plane * s[0] + i / plane] = uint8_t(rng.bits(i));
  }
  Sample as_planes() const { return {planar.data(), shape, 0}; }
  Sample as_pixels() const {
    return {interleaved.data(), shape, 0,
            Part{.height = shape[1], .width = shape[2], .interleaved = true}};
  }
  Stored stored() const {
    Stored made(shape[0], shape[1], shape[2]);
    std::ranges::copy(planar, made.pixels.begin());
    return made;
  }
};

static std::vector<float> written_in(const ImagePlan& picture, const Sample& sample,
                                     const MemoryFormat& format) {
  std::vector<float> out(picture.shape().numel() + 2, -7.f);
  write_image(picture, sample, out.data() + 1, format);
  EXPECT_EQ(out.front(), -7);
  EXPECT_EQ(out.back(), -7);
  return {out.begin() + 1, out.end() - 1};
}
// Returns the result as planes, and checks that NHWC has the same values.
static std::vector<float> written(const ImagePlan& picture, const Sample& sample) {
  const std::vector<float> planes = written_in(picture, sample, kNCHW),
                           pixels = written_in(picture, sample, kNHWC);
  const size_t channels = picture.channels(), plane = planes.size() / channels;
  for (size_t i = 0; i < planes.size(); ++i)
    EXPECT_EQ(pixels[i % plane * channels + i / plane], planes[i]) << i;
  return planes;
}

static ImagePlan in_bytes(const Shape& shape) {
  ImagePlan picture(shape);
  std::ranges::fill(picture.levels.scale, 1.f);
  return picture;
}

static void expect_same(const std::vector<float>& got, const Stored& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.pixels.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted.pixels[i], tolerance) << i;
}

// A part, resized, then crops inside and a crop that needs padding, with mirrors between them, then
// colors, levels and a hole.
TEST(ImagePlan, AnyChainOfStepsIsOnePass) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Philox rng(RngKey{.seed = seed, .site = 1});
    uint64_t drawn = 0;
    const auto below = [&](int64_t n) { return int64_t(rng.below(n, 4 * drawn++)); };
    const Source source({1 + 2 * below(2), 1 + below(20), 1 + below(20)}, seed);
    ImagePlan picture = in_bytes(source.shape);
    Stored stored = source.stored();
    const auto crop = [&](const Rectangle& part, Outside outside) {
      picture.crop(part, outside);
      stored = stored.cropped(part, outside);
    };
    const auto mirror = [&] {
      if (below(2)) picture.mirror(), stored = stored.mirrored();
    };
    const auto part_inside = [&]() -> Rectangle {
      const int64_t h = 1 + below(stored.height), w = 1 + below(stored.width);
      return {below(stored.height - h + 1), below(stored.width - w + 1), h, w};
    };
    const auto crop_inside = [&] { crop(part_inside(), Outside::zeros); };
    if (below(3)) {
      Rectangle part = part_inside();
      int64_t h = 1 + below(25), w = 1 + below(25);
      if (below(4) == 0) {  // a part in the corner that keeps its size is not the whole source
        part.top = part.left = 0;
        h = part.height, w = part.width;
      }
      picture.resize(part, h, w);
      stored = stored.cropped(part, Outside::zeros).resized(h, w);
    }
    mirror();
    if (below(2)) crop_inside();
    mirror();
    if (below(2)) {
      const Outside outside =
          below(2) && stored.height > 1 && stored.width > 1 ? Outside::reflect : Outside::zeros;
      const int64_t pad = 1 + below(4);
      crop({-pad, -pad, stored.height + 2 * pad, stored.width + pad}, outside);
      mirror();
      crop_inside();
    }
    if (stored.channels == 3 && below(2)) {
      const Colors map{{{2, 0, 0}, {0, 0, 1}, {-1, 1, 0}}, {1, 2, 3}};
      picture.colors = map;
      stored = stored.filled(stored.height, stored.width, [&](int64_t c, int64_t y, int64_t x) {
        double sum = map.shift[c];
        for (int64_t k = 0; k < 3; ++k) sum += map.matrix[c][k] * stored.at(k, y, x);
        return std::clamp(sum, 0., 255.);
      });
    }
    for (int c = 0; c < 3; ++c) picture.levels.scale[c] = .5f, picture.levels.shift[c] = float(c);
    if (below(2)) picture.erase(part_inside());
    const Rectangle hole = picture.hole;
    stored = stored.filled(stored.height, stored.width, [&](int64_t c, int64_t y, int64_t x) {
      const bool erased = y >= hole.top && y < hole.top + hole.height && x >= hole.left &&
                          x < hole.left + hole.width;
      return erased ? 0. : stored.at(c, y, x) / 2 + double(c);
    });
    expect_same(written(picture, source.as_planes()), stored, 1e-3);
    EXPECT_EQ(written(picture, source.as_planes()), written(picture, source.as_pixels())) << seed;
  }
}

TEST(ImagePlan, ResizesAsPyTorchDoes) {
  const auto fixture = read_safetensors(source_dir() + "/tests/oracle/resize.safetensors").tensors;
  const auto named = [&](const std::string& name) {
    return std::ranges::find(fixture, name, &NamedTensor::name)->tensor;
  };
  const Tensor source = named("picture");
  const auto numbers = source.data<float>();
  const std::vector<uint8_t> bytes(numbers.begin(), numbers.end());
  for (const auto& [name, wanted] : fixture) {
    if (name == "picture") continue;
    std::istringstream fields(name);
    Rectangle part;
    int64_t height, width;
    char separator;
    fields >> part.top >> separator >> part.left >> separator >> part.height >> separator >>
        part.width >> separator >> height >> separator >> width;
    ImagePlan picture = in_bytes(source.shape());
    picture.resize(part, height, width);
    const auto got = written(picture, {bytes.data(), source.shape(), 0});
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], wanted.data<float>()[i], 2e-3) << name << " " << i;
  }
}
