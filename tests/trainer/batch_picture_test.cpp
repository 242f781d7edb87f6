// Pictures of batches: their pixels, and the files that a run writes. Images for `trainer predict`.
#include "core/tensor/copy.h"
#include "data/images/image_file.h"
#include "tests/trainer/program.h"
#include "trainer/log/log.h"
#include "trainer/verbs/image.h"

using namespace bellows;

namespace {
Tensor tensor(const Shape& shape, std::initializer_list<float> values) {
  const Tensor t(shape, DType::f32);
  std::ranges::copy(values, t.data<float>().begin());
  return t;
}

// The red, green and blue of a PNG's pixel.
std::array<int, 3> pixel(const Sample& png, int64_t row, int64_t column) {
  const uint8_t* const at = png.pixels + 3 * (row * png.shape[2] + column);
  return {at[0], at[1], at[2]};
}
}  // namespace

TEST(BatchPicture, ShowsGrayAndColoredImagesInAGrid) {
  const Tensor x = tensor({2, 1, 1, 2}, {-1, 1, 0, -1});
  Scratch scratch;
  for (const Tensor& same : {x, contiguous(x, kNHWC), cast(x, DType::bf16)}) {
    const Sample png = decode_image(batch_picture(same), scratch);
    ASSERT_EQ(png.shape, (Shape{3, 3, 7})) << "two columns of 2 pixels and three borders";
    EXPECT_THAT(pixel(png, 1, 1), ElementsAre(0, 0, 0));
    EXPECT_THAT(pixel(png, 1, 2), ElementsAre(255, 255, 255));
    EXPECT_THAT(pixel(png, 1, 4), ElementsAre(128, 128, 128));
    EXPECT_THAT(pixel(png, 1, 5), ElementsAre(0, 0, 0));
    EXPECT_THAT(pixel(png, 0, 2), ElementsAre(0, 0, 0)) << "border";
  }
  const Tensor colors = tensor({1, 4, 1, 1}, {0, 2, 4, 4});  // the fourth channel is not shown
  EXPECT_THAT(pixel(decode_image(batch_picture(colors), scratch), 1, 1), ElementsAre(0, 128, 255));
}

TEST_F(Program, WritesPicturesOfBatchesAndSaysWhatTheyCost) {
  EXPECT_THAT(succeed(tiny({"--run-dir", "out", "log.pictures_every=3"})),
              HasSubstr("pictures: 2 of batches, "));
  for (const char* name : {"step_00000003.png", "step_00000006.png"}) {
    const std::string file = read(std::filesystem::path("out/pictures") / name);
    const std::vector<uint8_t> bytes(file.begin(), file.end());
    EXPECT_EQ(image_shape(bytes), (Shape{3, 4 * 29 + 1, 4 * 29 + 1})) << "16 digits";
  }
  run(tiny({"--run-dir", "none"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none/pictures"));
}

// ---- images for `trainer predict`

// Resized as training images are: a triangle two output pixels wide, as in Pillow.
TEST(FittedImage, IsBlendedWithTheFilterOfTheTransformResizeIntoPlanesInGrayOrRgb) {
  EXPECT_THAT(fitted({1, 2, {1, 2, 3, 4, 5, 6}}, {3, 1, 2}), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(fitted({1, 1, {100, 50, 200}}, {1, 1, 1}), ElementsAre(82));
  EXPECT_THAT(fitted({1, 2, {0, 0, 0, 100, 100, 100}}, {1, 1, 4}), ElementsAre(0, 25, 75, 100));
}
