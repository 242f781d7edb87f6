// Images for `trainer predict`: resized as training images are, and what is left out is reported.
#include "trainer/verbs/image.h"
#include <gmock/gmock.h>
#include "core/base/check.h"
#include "tests/data/files.h"

using namespace bellows;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// A gray image, whose values are RGB with three equal channels.
static DecodedImage gray(int64_t height, int64_t width, const std::vector<uint8_t>& values) {
  DecodedImage image{height, width, {}};
  for (const uint8_t value : values) image.pixels.insert(image.pixels.end(), 3, value);
  return image;
}
static std::vector<uint8_t> ramp(int64_t size) {
  std::vector<uint8_t> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(uint8_t(10 * i));
  return values;
}

// A triangle two output pixels wide: Pillow gives the same.
TEST(FittedImage, IsBlendedWithTheFilterOfTheTransformResizeIntoPlanesInGrayOrRgb) {
  EXPECT_EQ(fitted(gray(3, 5, ramp(15)), {1, 3, 5}), ramp(15)) << "of the same size";
  EXPECT_THAT(fitted({1, 2, {1, 2, 3, 4, 5, 6}}, {3, 1, 2}), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(fitted({1, 1, {100, 50, 200}}, {1, 1, 1}), ElementsAre(82));
  EXPECT_THAT(fitted(gray(1, 4, ramp(4)), {1, 1, 2}), ElementsAre(7, 23));
  EXPECT_THAT(fitted(gray(1, 2, {0, 100}), {1, 1, 4}), ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(fitted({64, 48, std::vector<uint8_t>(64 * 48 * 3, 90)}, {1, 28, 28}), Each(90));
}

TEST(ImagePaths, ReportsWhatIsLeftOut) {
  const TempFolder folder;
  folder.write("b/1.png", "");
  folder.write("b/0.gif", "");
  std::filesystem::create_symlink("1.png", folder.path / "b/2.PNG");
  std::filesystem::create_symlink("nowhere", folder.path / "b/3.png");
  testing::internal::CaptureStderr();
  const auto paths = image_paths({folder.path});
  EXPECT_THAT(paths,
              ElementsAre((folder.path / "b/1.png").string(), (folder.path / "b/2.PNG").string()));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(cat("warning: ", folder.path.string(),
                            ": 2 left out: .gif 1, broken link 1; the first is ",
                            (folder.path / "b/0.gif").string())));
}
