#include "data/images/transform.h"
#include <numeric>
#include "tests/data/files.h"
#include "tests/data/noise.h"
#include "tests/data/numbers.h"

using namespace bellows;

static const DatasetInfo kInfo{
    .input = {DType::u8, {2, 3, 5}}, .classes = 10, .mean = {.25f, .5f}, .std = {.5f, .125f}};

static std::vector<uint8_t> pixels() {
  std::vector<uint8_t> bytes(30);
  for (int i = 0; i < 30; ++i) bytes[i] = static_cast<uint8_t>(i * 8 + 3);
  return bytes;
}

TEST(Normalize, TakesTheDataSetsOwnStatisticsUnlessToldOthers) {
  const auto in = pixels();
  const Sample sample{in.data(), kInfo.input.shape, 0};
  std::vector<float> out(32, -7.f);
  Transforms({}, kInfo).write(sample, 1, 0, 0, out.data() + 1);
  for (int i = 0; i < 30; ++i) {
    const double mean = kInfo.mean[i / 15], std = kInfo.std[i / 15];
    EXPECT_NEAR(out[i + 1], (in[i] / 255. - mean) / std, 2e-6) << i;
  }
  EXPECT_EQ(out.front(), -7);
  EXPECT_EQ(out.back(), -7);

  const Texts own = {{"mean.0", "0"}, {"mean.1", "0"}, {"std.0", "1"}, {"std.1", "0.5"}};
  Transforms({named("normalize", own)}, kInfo).write(sample, 1, 0, 0, out.data());
  EXPECT_FLOAT_EQ(out[2], in[2] / 255.f);
  EXPECT_FLOAT_EQ(out[17], in[17] / 255.f * 2);
}

TEST(Transforms, RefuseStatisticsOfOtherChannels) {
  DatasetInfo info = kInfo;
  info.mean = {.5f};
  EXPECT_THAT(complaint(Exit::usage, [&] { Transforms({}, info); }),
              HasSubstr("1 means and 2 deviations for 2 channels"));
}

static DatasetInfo info_of(const Shape& sample) {
  return {.input = {DType::u8, sample}, .classes = 10, .mean = {0, 0, 0}, .std = {1, 1, 1}};
}
static Transforms only(const std::string& name, const Texts& options, const Shape& sample,
                       TransformMode mode = TransformMode::training) {
  return Transforms({named(name, options)}, info_of(sample), mode);
}
// Returns the error of a list that is refused when it is read.
static std::string refusal(const Chain& chain, const Shape& sample) {
  return complaint(Exit::usage, [&] { Transforms(chain, info_of(sample)); });
}
// Source of a pixel: (row, column), -1 for padding.
static std::pair<int64_t, int64_t> origin(const ImagePlan& p, int64_t y = 0, int64_t x = 0) {
  return {p.rows.cell(y), p.columns.cell(x)};
}

TEST(Transforms, AreFunctionsOfSeedEpochAndSample) {
  const Transforms crop = only("random_crop", {{"size", "8"}}, {3, 500, 500});
  EXPECT_EQ(crop.shape(), (Shape{3, 8, 8}));
  const auto place = [&](uint64_t seed, int64_t epoch, int64_t index) {
    return crop.plan({3, 500, 500}, seed, epoch, index).rows.cell(0);
  };
  EXPECT_EQ(place(1, 2, 3), place(1, 2, 3));
  EXPECT_NE(place(1, 2, 3), place(2, 2, 3));
  EXPECT_NE(place(1, 2, 3), place(1, 3, 3));
  EXPECT_NE(place(1, 2, 3), place(1, 2, 4));
}

TEST(RandomCrop, GoesEverywhereEquallyOften) {
  const Shape in{1, 4, 5};
  const Transforms crop = only("random_crop", {{"size", "4"}, {"padding", "1"}}, in);
  std::map<std::pair<int64_t, int64_t>, int> count;
  for (int i = 0; i < 12000; ++i) ++count[origin(crop.plan(in, 1, 0, i), 1, 1)];
  EXPECT_EQ(count.size(), 3u * 4);
  for (const auto& [place, n] : count) EXPECT_NEAR(n, 1000, 150);
  const Transforms settled =
      only("random_crop", {{"size", "4"}, {"padding", "1"}}, in, TransformMode::evaluation);
  EXPECT_EQ(origin(settled.plan(in, 1, 0, 7)), (std::pair<int64_t, int64_t>{0, 0}));
}

TEST(RandomCrop, PadsWithBlackOrWithTheMirroredPicture) {
  const Shape in{1, 4, 4};
  for (const auto& [mode, beyond] : {std::pair("zeros", -1), std::pair("reflect", 2)}) {
    const Transforms crop({random_crop(8, 2, mode)}, info_of(in));
    EXPECT_EQ(origin(crop.plan(in, 1, 0, 0), 0, 7).first, beyond);
    EXPECT_EQ(origin(crop.plan(in, 1, 0, 0), 2, 2), (std::pair<int64_t, int64_t>{0, 0}));
  }
  EXPECT_THAT(refusal({random_crop(9, 2)}, in),
              HasSubstr("transform random_crop: a side of 4 with padding of 2 is shorter"));
}

TEST(RandomFlip, MirrorsAsOftenAsItIsTold) {
  const Shape in{1, 2, 3};
  for (const double probability : {0., .3, 1.}) {
    const Transforms flip = only("random_flip", {{"probability", cat(probability)}}, in);
    int mirrored = 0;
    for (int i = 0; i < 10000; ++i) mirrored += origin(flip.plan(in, 1, 0, i)).second == 2;
    EXPECT_NEAR(mirrored, 10000 * probability, 200 * probability * (1 - probability) * 4);
  }
}

TEST(RandomResizedCrop, TakesPartsOfTheAreaAndProportionsThatItIsTold) {
  const Shape in{3, 300, 200};
  const Transforms crop =
      only("random_resized_crop", {{"size", "32"}, {"min_scale", "0.2"}, {"max_scale", "0.5"}}, in);
  double least = 1, most = 0, narrowest = 9, widest = 0, tops = 0;
  for (int i = 0; i < 4000; ++i) {
    const ImagePlan p = crop.plan(in, 1, 0, i);
    EXPECT_EQ(p.shape(), (Shape{3, 32, 32}));
    const double h = double(p.row_axis().high - p.row_axis().low);
    const double w = double(p.column_axis().high - p.column_axis().low);
    least = std::min(least, h * w / 60000), most = std::max(most, h * w / 60000);
    narrowest = std::min(narrowest, w / h), widest = std::max(widest, w / h);
    tops += double(p.row_axis().low) / std::max(1., 300 - h) / 4000;
  }
  EXPECT_NEAR(least, .2, .01);
  EXPECT_NEAR(most, .5, .01);
  EXPECT_NEAR(narrowest, .75, .02);
  EXPECT_NEAR(widest, 4. / 3, .02);
  EXPECT_NEAR(tops, .5, .02);
}

// No part of the image has such proportions: the middle is taken, and a pixel at least.
TEST(RandomResizedCrop, TakesAPartIfNothingFits) {
  using Part = std::array<int64_t, 4>;
  const auto part = [&](const Texts& options, const Shape& in) -> Part {
    const ImagePlan p = only("random_resized_crop", options, in).plan(in, 1, 0, 0);
    return {p.row_axis().low, p.row_axis().high, p.column_axis().low, p.column_axis().high};
  };
  EXPECT_EQ(part({{"min_scale", "1"}}, {1, 10, 100}), (Part{0, 10, 43, 43 + 13}));
  for (const auto& [ratio, height, width] : {std::tuple("100", 1, 32), {"0.01", 32, 1}}) {
    const Part p = part({{"min_ratio", ratio}, {"max_ratio", ratio}}, {1, 32, 32});
    EXPECT_EQ(p[1] - p[0], height);
    EXPECT_EQ(p[3] - p[2], width);
  }
}

// Like torchvision's presets: resize to 256, then crop to 224.
TEST(RandomResizedCrop, InEvaluationTakesTheMiddle) {
  const Shape in{3, 512, 640};
  const Transforms settled = only("random_resized_crop", {}, in, TransformMode::evaluation);
  const Transforms both({named("resize", {{"size", "256"}}), center_crop(224)}, info_of(in));
  const ImagePlan a = settled.plan(in, 1, 0, 0), b = both.plan(in, 1, 0, 0);
  EXPECT_EQ(a.shape(), (Shape{3, 224, 224}));
  EXPECT_EQ(origin(a), (std::pair<int64_t, int64_t>{16, 48}));
  EXPECT_EQ(origin(a), origin(b));
  EXPECT_EQ(a.row_axis().step, 2);
  EXPECT_EQ(a.column_axis().step, b.column_axis().step);
}

TEST(Resize, KeepsProportionsOrMakesASquare) {
  const Shape in{3, 32, 50};
  for (const auto& [square, shape] : {std::pair("false", Shape{3, 8, 12}), {"true", {3, 8, 8}}}) {
    const Transforms resize = only("resize", {{"size", "8"}, {"square", square}}, in);
    EXPECT_EQ(resize.shape(), shape);
    EXPECT_EQ(resize.plan(in, 1, 0, 0).shape(), shape);
  }
}

TEST(Cutout, MakesAHoleThatMayHangOverTheEdge) {
  const Shape in{3, 10, 12};
  const Transforms cutout = only("cutout", {{"size", "4"}}, in);
  std::map<int64_t, int> heights;
  double covered = 0;
  for (int i = 0; i < 5000; ++i) {
    const Rectangle hole = cutout.plan(in, 1, 0, i).hole;
    EXPECT_GE(std::min(hole.top, hole.left), 0);
    EXPECT_LE(hole.top + hole.height, 10);
    EXPECT_LE(hole.left + hole.width, 12);
    ++heights[hole.height];
    covered += double(hole.height * hole.width) / 5000;
  }
  // Three of ten centers are too close to an edge: one by two pixels, two by one.
  EXPECT_EQ(heights.size(), 3u);
  EXPECT_NEAR(heights[4], 3500, 150);
  EXPECT_NEAR(heights[3], 1000, 150);
  EXPECT_NEAR(covered, (4 * .7 + 3 * .2 + 2 * .1) * (4 * 9 + 3 * 2 + 2) / 12, .2);
  EXPECT_EQ(only("cutout", {}, in, TransformMode::evaluation).plan(in, 1, 0, 0).hole.height, 0);
}

TEST(ColorJitter, IsBrightnessThenContrastThenSaturation) {
  const Shape in{3, 1, 1};
  DatasetInfo info = info_of(in);
  info.mean = {.4f, .5f, .6f};
  const float grey = .299f * .4f + .587f * .5f + .114f * .6f;
  const Transforms jitter({TransformChoice("color_jitter")}, info);
  float least = 2, most = 0;
  for (int i = 0; i < 200; ++i) {
    const Colors map = *jitter.plan(in, 1, 0, i).colors;
    // Saturation does not change a gray, so two grays determine the other two factors.
    const float dark = map.at(0, 100, 100, 100) / 255, bright = map.at(0, 120, 120, 120) / 255;
    const float both = (bright - dark) * 255 / 20;  // brightness * contrast
    const float contrast = 1 - (dark - both * 100 / 255) / grey, brightness = both / contrast;
    least = std::min({least, brightness, contrast}), most = std::max({most, brightness, contrast});
    const float x[] = {.4f, .45f, .35f};
    float y[3], luma = 0;
    for (int c = 0; c < 3; ++c) y[c] = grey + (x[c] * brightness - grey) * contrast;
    for (int c = 0; c < 3; ++c) luma += y[c] * std::array{.299f, .587f, .114f}[c];
    const auto red = map.at(0, 255 * x[0], 255 * x[1], 255 * x[2]) / 255;
    const float saturation = (red - luma) / (y[0] - luma);
    if (std::abs(y[0] - luma) < .01f) continue;
    for (int c = 0; c < 3; ++c)
      EXPECT_NEAR(map.at(c, 255 * x[0], 255 * x[1], 255 * x[2]) / 255,
                  luma + (y[c] - luma) * saturation, 2e-3);
    EXPECT_NEAR(saturation, 1, .45);
  }
  EXPECT_NEAR(least, .6, .05);
  EXPECT_NEAR(most, 1.4, .05);
}

// torchvision's adjust_hue, step by step: RGB to HSV, shift of the hue, and back by sector.
static std::array<double, 3> hue_moved(std::array<double, 3> rgb, double by) {
  const auto [r, g, b] = rgb;
  const double most = std::max({r, g, b}), least = std::min({r, g, b}), spread = most - least;
  if (spread == 0) return rgb;
  const double rc = (most - r) / spread, gc = (most - g) / spread, bc = (most - b) / spread;
  const double sixths = r == most ? bc - gc : g == most ? 2 + rc - bc : 4 + gc - rc;
  const double h = std::fmod(sixths / 6 + 1 + by + 1, 1), s = spread / most;
  const int sector = int(h * 6);
  const double f = h * 6 - sector;
  const double p = most * (1 - s), q = most * (1 - s * f), t = most * (1 - s * (1 - f));
  const std::array<double, 3> back[] = {{most, t, p}, {q, most, p}, {p, most, t},
                                        {p, q, most}, {t, p, most}, {most, p, q}};
  return back[sector % 6];
}

TEST(ColorJitter, TurnsTheHueAsTorchvisionDoes) {
  const Philox rng(RngKey{.seed = 5});
  for (uint64_t i = 0; i < 4000; ++i) {
    const int64_t levels[] = {2, 3, 256};  // few, so that channels are sometimes equal
    std::array<double, 3> rgb;
    for (int c = 0; c < 3; ++c)
      rgb[c] = 255. * double(rng.below(levels[i % 3], 8 * i + c)) / double(levels[i % 3] - 1);
    const auto turn = float(rng.uniform(8 * i + 4) - .5);
    const auto wanted = hue_moved(rgb, turn);
    float got[] = {float(rgb[0]), float(rgb[1]), float(rgb[2])};
    turn_hue(turn, got[0], got[1], got[2]);
    for (int c = 0; c < 3; ++c) ASSERT_NEAR(got[c], wanted[c], 1e-2) << i << " by " << turn;
  }
}

TEST(ColorJitter, TurnsTheHueByWhatIsDrawnAndAfterTheOthers) {
  const Shape in{3, 1, 4};
  const Texts still{{"brightness", "0"}, {"contrast", "0"}, {"saturation", "0"}, {"hue", "0.3"}};
  const Transforms hue = only("color_jitter", still, in);
  const Transforms all = only("color_jitter", {{"hue", "0.3"}}, in);
  const uint8_t pixels[] = {200, 10, 90, 7, 40, 120, 90, 255, 60, 70, 90, 31};
  double least = 1, most = -1;
  for (int i = 0; i < 200; ++i) {
    const Colors map = *all.plan(in, 1, 0, i).colors;
    EXPECT_EQ(map.turn, hue.plan(in, 1, 0, i).colors->turn);
    least = std::min<double>(least, map.turn), most = std::max<double>(most, map.turn);
    std::vector<float> out(12);
    all.write({pixels, in, 0}, 1, 0, i, out.data());
    for (int x = 0; x < 4; ++x) {
      std::array<double, 3> rgb;
      for (int c = 0; c < 3; ++c) rgb[c] = map.at(c, pixels[x], pixels[4 + x], pixels[8 + x]);
      const auto wanted = hue_moved(rgb, map.turn);
      for (int c = 0; c < 3; ++c) ASSERT_NEAR(out[4 * c + x] * 255, wanted[c], 1e-2) << i;
    }
  }
  EXPECT_NEAR(least, -.3, .01);
  EXPECT_NEAR(most, .3, .01);
}

// Draws each of the four for the same samples, with the other three switched off. Each number is
// scaled to lie between -1 and 1.
TEST(ColorJitter, DrawsItsFourNumbersIndependently) {
  constexpr int kSamples = 2000;
  const Shape in{3, 1, 1};
  const std::pair<std::string, double> scales[] = {
      {"brightness", .4}, {"contrast", .4}, {"saturation", .4 * (1 - .299)}, {"hue", .4}};
  std::vector<std::vector<double>> drawn;
  for (const auto& [name, scale] : scales) {
    Texts alone{{"brightness", "0"}, {"contrast", "0"}, {"saturation", "0"}, {"hue", "0"}};
    alone[name] = "0.4";
    const Transforms jitter = only("color_jitter", alone, in);
    std::vector<double>& numbers = drawn.emplace_back();
    for (int i = 0; i < kSamples; ++i) {
      const Colors map = *jitter.plan(in, 1, 0, i).colors;
      numbers.push_back((name == "hue" ? map.turn : map.matrix[0][0] - 1) / scale);
    }
  }
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b <= a; ++b)
      EXPECT_NEAR(
          std::inner_product(drawn[a].begin(), drawn[a].end(), drawn[b].begin(), 0.) / kSamples,
          a == b ? 1 / 3. : 0, .03)
          << scales[a].first << ", " << scales[b].first;
}

TEST(Transforms, WantPicturesOfDifferingSizesMadeAlike) {
  for (const Chain& chain : {Chain{}, Chain{named("resize")}})
    EXPECT_THAT(refusal(chain, {3, 0, 0}),
                HasSubstr("may differ in size, and no transform makes them alike; add "));
  const Transforms crop = only("random_resized_crop", {{"size", "4"}}, {3, 0, 0});
  for (const Shape& shape : {Shape{3, 9, 5}, Shape{3, 20, 31}}) {
    const std::vector<uint8_t> pixels(shape.numel(), 255);
    std::vector<float> out(48);
    crop.write({pixels.data(), shape, 0}, 1, 0, 0, out.data());
    for (const float number : out) EXPECT_NEAR(number, 1, 1e-5);
  }
}

// Refused before the first batch, for images of one size and of any size.
TEST(Transforms, GoFromResizeToCropsToColorsToCutout) {
  const auto resize = named("resize", {{"size", "24"}}), crop = center_crop(20), hole = cutout(4),
             square = named("random_resized_crop", {{"size", "24"}}),
             jitter = named("color_jitter");
  const std::string order =
      "; the order is: one transform that resizes, then crops and flips, then one color_jitter, "
      "then one cutout";
  for (const Shape& sample : {Shape{3, 32, 48}, Shape{3, 0, 0}}) {
    const auto refused = [&](const Chain& chain, const std::string& why) {
      EXPECT_EQ(refusal(chain, sample), "data.transforms has " + why + order);
    };
    refused({crop, resize}, "resize after center_crop");
    refused({square, resize}, "resize after random_resized_crop");
    refused({resize, flip(), normalize(), square}, "random_resized_crop after random_flip");
    refused({square, jitter, flip()}, "random_flip after color_jitter");
    refused({square, jitter, jitter}, "color_jitter after color_jitter");
    refused({square, hole, jitter}, "color_jitter after cutout");
    refused({square, hole, hole}, "cutout after cutout");
    Transforms({normalize(), square, flip(), crop, flip(), jitter, hole, normalize()},
               info_of(sample));
    Transforms({resize, crop, hole}, info_of(sample), TransformMode::evaluation);
  }
}

TEST(Transforms, PadOnce) {
  const Shape sample{3, 32, 48};
  EXPECT_THAT(refusal({random_crop(32, 4), flip(), random_crop(32, 2)}, sample),
              HasSubstr("transform random_crop: the images have padding already"));
  Transforms({random_crop(32, 4), flip(), center_crop(20), random_crop(8, 0)}, info_of(sample));
  Transforms({random_crop(32, 4), random_crop(32, 2)}, info_of(sample), TransformMode::evaluation);
}

TEST(Loader, AugmentsUnlessItIsToldNotTo) {
  const auto numbers = std::make_shared<Numbers>(64);
  for (const bool augment : {true, false}) {
    Loader loader(numbers, {flip()},
                  {.sampler = {.batch_size = 64, .shuffle = false}, .batch = {.augment = augment}},
                  1);
    loader.start(0);
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    int mirrored = 0;  // the white fourth pixel is now the third
    for (int64_t i = 0; i < 64; ++i) mirrored += batch.x.ptr<float>()[4 * i + 2] == 1;
    EXPECT_EQ(mirrored > 0, augment);
  }
}
