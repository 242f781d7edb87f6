// A JPEG that is decoded only as far as needed gives the same image.
#include "core/base/philox.h"
#include "data/images/image_plan.h"
#include "data/loader/loader.h"
#include "tests/data/decoded.h"
#include "tests/data/options.h"
#include "tests/moved.h"

using namespace bellows;

static Pixels noise(int height, int width, int channels) {
  Pixels p{height, width, channels, {}};
  const Philox rng(RngKey{.seed = 3});
  for (int i = 0; i < height * width * channels; ++i) p.bytes.push_back(uint8_t(rng.bits(i)));
  return p;
}

static std::vector<float> written(const ImagePlan& picture, const Sample& sample) {
  std::vector<float> out(picture.shape().numel());
  write_image(picture, sample, out.data());
  return out;
}
// Returns the result of the file decoded as a whole, and decoded only as far as `picture` needs.
static std::pair<std::vector<float>, std::vector<float>> both_ways(const ImagePlan& picture,
                                                                   const std::string& file) {
  Scratch all, some;
  const Sample whole = decode_image(image_bytes(file), all);
  const Sample part =
      decode_image(image_bytes(file), some, [&](const Shape&) { return picture.view(); });
  EXPECT_EQ(whole.shape, part.shape);
  return {written(picture, whole), written(picture, part)};
}

struct Forms : testing::TestWithParam<std::tuple<int, int, bool>> {
  std::string file_of(const Pixels& p) const {
    const auto [channels, subsampling, progressive] = GetParam();
    return as_jpeg(p, {85, subsampling, progressive});
  }
  int channels() const { return std::get<0>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(ScaledDecode, Forms,
                         testing::Combine(testing::Values(1, 3), testing::Values(1, 2, 4),
                                          testing::Bool()));

// Crops, and downscaling by less than 2, give the same bits, even for noise.
TEST_P(Forms, APartIsThatOfTheWhole) {
  const std::string file = file_of(noise(75, 101, channels()));
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Philox rng(RngKey{.seed = seed});
    const int64_t h = 1 + int64_t(rng.below(75, 0)), w = 1 + int64_t(rng.below(101, 1));
    ImagePlan picture({3, 75, 101});
    const Rectangle in{int64_t(rng.below(76 - h, 2)), int64_t(rng.below(102 - w, 3)), h, w};
    seed % 2 ? picture.resize(in, h * 2 / 3 + 1, w * 2 / 3 + 1) : picture.crop(in);
    const auto [whole, part] = both_ways(picture, file);
    ASSERT_EQ(whole, part) << seed;
  }
}

TEST_P(Forms, AReducedPartIsAboutThatOfTheWhole) {
  const std::string file = file_of(slopes(160, 200, channels()));
  for (const auto& [size, reduced] : {std::pair(36, 2), {18, 4}, {9, 8}, {5, 8}}) {
    ImagePlan picture({3, 160, 200});
    picture.resize({37, 51, 77, 90}, size, size);
    Scratch scratch;
    const ViewOf wanted = [&](const Shape&) { return picture.view(); };
    EXPECT_EQ(decode_image(image_bytes(file), scratch, wanted).part->reduced, reduced);
    const auto [whole, part] = both_ways(picture, file);
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], part[i], 4 / 255.) << i;
  }
}

// Under a sanitizer this also shows that nothing is read or written outside the buffers.
TEST(ScaledDecode, OfDamagedFilesIsRefusedOrHasItsSizeLikeTheWhole) {
  const std::string file = as_jpeg(slopes(48, 64), {75, 2, false});
  int refused = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Philox rng(RngKey{.seed = seed});
    std::string bytes = file.substr(0, seed % 3 ? file.size() : rng.below(file.size(), 0));
    for (int i = 0; i < 3 && !bytes.empty(); ++i)
      bytes[rng.below(bytes.size(), 2 * i + 1)] = char(rng.bits(2 * i + 2));
    const ViewOf some = [&](const Shape& shape) {
      const int64_t h = 1 + int64_t(rng.below(shape[1], 20));
      const int64_t w = 1 + int64_t(rng.below(shape[2], 21));
      return View{{shape[1] - h, shape[2] - w, h, w}, double(rng.below(10, 22))};
    };
    refused += !is_decoded(bytes, some);
    is_decoded(bytes);
  }
  EXPECT_GT(refused, 1000);
}

TEST(ScaledDecode, OfABlackPictureDecodesNearlyNothing) {
  ImagePlan picture({3, 64, 64});
  picture.crop({-70, 0, 64, 64});
  const Moved pixels("decode.pixels");
  const auto [whole, part] = both_ways(picture, as_jpeg(slopes(64, 64)));
  EXPECT_EQ(pixels, 64 * 64 + 64) << "the whole image, and then one row";
  EXPECT_EQ(part, std::vector<float>(3 * 64 * 64, 0.f));
  EXPECT_EQ(whole, part);
}
