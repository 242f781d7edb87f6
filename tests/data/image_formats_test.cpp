// BMP, PNM and WebP files of every kind are decoded to RGB or refused with one clear
// Error(Exit::data).
#include <webp/decode.h>
#include <webp/encode.h>
#include <random>
#include "tests/data/decoded.h"

using namespace bellows;
using testing::ElementsAreArray;

namespace {

using Values = std::vector<uint8_t>;

Values pixels_of(const std::string& file) { return decoded(file).bytes; }
// The red values, which are those of gray.
Values grays_of(const std::string& file) {
  Values grays;
  const Values pixels = pixels_of(file);
  for (size_t i = 0; i < pixels.size(); i += 3) grays.push_back(pixels[i]);
  return grays;
}

// Expects that files that end earlier than `whole`, after the bytes that tell its format, are
// refused, and files in which some bytes are wrong are read or refused.
void expect_safe(const std::string& whole, const std::string& format, size_t magic = 2) {
  for (size_t size = magic; size < whole.size(); ++size)
    EXPECT_THAT(image_refusal(whole.substr(0, size)), HasSubstr(format)) << size;
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string file = whole;
    for (int i = 0; i <= round % 3; ++i) file[2 + random() % (file.size() - 2)] = char(random());
    file.replace(0, magic, whole, 0, magic);
    is_decoded(file);
  }
}

std::string number(uint64_t value, int bytes) {  // little endian
  std::string text;
  for (int i = 0; i < bytes; ++i) text += char(value >> 8 * i);
  return text;
}

struct BmpForm {
  int bits = 24;
  uint32_t compression = 0;
  std::string colors = "";  // the palette
};
std::string bmp(int width, int height, const std::string& pixels, const BmpForm& form = {}) {
  const auto count = uint32_t(form.colors.size() / 4);
  const std::string image = number(40, 4) + number(uint32_t(width), 4) +
                            number(uint32_t(height), 4) + number(1, 2) + number(form.bits, 2) +
                            number(form.compression, 4) + number(0, 4) + number(0, 8) +
                            number(count, 4) + number(0, 4) + form.colors;
  const auto data = uint32_t(14 + image.size());
  return "BM" + number(data + uint32_t(pixels.size()), 4) + number(0, 4) + number(data, 4) + image +
         pixels;
}
std::string bytes(const Values& values) { return {values.begin(), values.end()}; }

const std::string kFourColors = bytes({1, 2, 3, 0, 40, 50, 60, 0, 7, 8, 9, 0, 255, 254, 253, 0});

}  // namespace

// ---- PNM

TEST(Pnm, OfEveryKindBecomesRgb) {
  EXPECT_THAT(pixels_of("P6 2 1 255\n\1\2\3\4\5\6"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(pixels_of("P5 2 1 255\n\7\x80"), ElementsAre(7, 7, 7, 128, 128, 128));
  EXPECT_THAT(grays_of("P5 # one\n2 #two\r1 # three\n# four\n\n255\n#6"), ElementsAre('#', '6'));
}

// Expected values are Pillow 13.0's: 42.5, 127.5 and 212.5 round to even.
TEST(Pnm, OfAnotherLargestValueIsScaled) {
  const Values scaled = {0, 42, 85, 128, 170, 212, 255};
  EXPECT_THAT(grays_of("P5 7 1 6\n" + bytes({0, 1, 2, 3, 4, 5, 6})), ElementsAreArray(scaled));
  EXPECT_THAT(grays_of("P5 2 1 6\n\7\xff"), ElementsAre(255, 255));
}

// ---- BMP

TEST(Bmp, OfColorsBecomesRgb) {
  const Values wanted = {3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10};  // the bottom row comes first
  const std::string low = bytes({7, 8, 9, 10, 11, 12, 0, 0}),
                    high = bytes({1, 2, 3, 4, 5, 6, 0, 0});
  EXPECT_EQ(pixels_of(bmp(2, 2, low + high)), wanted);
  EXPECT_EQ(pixels_of(bmp(2, -2, high + low)), wanted);
  const Pixels wide = decoded(bmp(3, 1, std::string(12, 'x')));
  EXPECT_EQ(std::pair(wide.height, wide.width), std::pair(1, 3));
  EXPECT_THAT(pixels_of(bmp(1, 1, bytes({1, 2, 3, 99}), {.bits = 32})), ElementsAre(3, 2, 1));
}

TEST(Bmp, OfAPaletteBecomesRgb) {
  const Values all = {3, 2, 1, 60, 50, 40, 9, 8, 7, 253, 254, 255};
  EXPECT_EQ(pixels_of(bmp(4, 1, bytes({0, 1, 2, 3}), {.bits = 8, .colors = kFourColors})), all);
  EXPECT_THAT(pixels_of(bmp(1, 1, bytes({9, 0, 0, 0}), {.bits = 8, .colors = kFourColors})),
              ElementsAre(0, 0, 0))
      << "an index that the palette lacks";
}

// ---- WebP

// Returns the file of an image without loss.
static std::string as_webp(const Pixels& p) {
  uint8_t* file = nullptr;
  const size_t size =
      p.channels == 4
          ? WebPEncodeLosslessRGBA(p.bytes.data(), p.width, p.height, p.width * 4, &file)
          : WebPEncodeLosslessRGB(p.bytes.data(), p.width, p.height, p.width * 3, &file);
  const std::string text(reinterpret_cast<const char*>(file), size);
  WebPFree(file);
  return text;
}
static std::string chunk(const std::string& name, const std::string& bytes) {
  return name + number(uint32_t(bytes.size()), 4) + bytes + std::string(bytes.size() % 2, '\0');
}
static std::string animation(const Pixels& first) {  // of 8 x 6 pixels
  const std::string still = as_webp(first).substr(12);
  const std::string frame = number(2, 3) + number(1, 3) + number(uint32_t(first.width - 1), 3) +
                            number(uint32_t(first.height - 1), 3) + number(100, 3) + number(0, 1) +
                            still;
  const std::string all = "WEBP" + chunk("VP8X", number(2, 4) + number(7, 3) + number(5, 3)) +
                          chunk("ANIM", number(0, 6)) + chunk("ANMF", frame) + chunk("ANMF", frame);
  return chunk("RIFF", all);
}

TEST(WebP, WithoutLossHasItsPixels) {
  const Pixels p = slopes(9, 14), alpha = slopes(5, 6, 4);
  const Pixels image = decoded(as_webp(p));
  EXPECT_EQ(std::pair(image.height, image.width), std::pair(9, 14));
  EXPECT_EQ(image.bytes, p.bytes);
  Values visible;
  for (size_t i = 0; i < alpha.bytes.size(); ++i)
    if (i % 4 < 3) visible.push_back(alpha.bytes[i]);
  EXPECT_EQ(pixels_of(as_webp(alpha)), visible);
}

TEST(WebP, WithLossIsNearItsPixels) {
  const Pixels p = slopes(24, 32);
  uint8_t* file = nullptr;
  const size_t size = WebPEncodeRGB(p.bytes.data(), p.width, p.height, p.width * 3, 95, &file);
  const Values got = pixels_of(std::string(reinterpret_cast<const char*>(file), size));
  WebPFree(file);
  ASSERT_EQ(got.size(), p.bytes.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], p.bytes[i], 12) << i;
}

// ---- refusals

TEST(OtherFormats, AreRefusedWithAWrongHeaderOrSize) {
  std::string os2 = bmp(1, 1, "1234");
  os2[14] = 12;
  const std::string binary_only =
      "PNM: only P5 and P6, the binary formats of gray and RGB, are read; save the image as PNG";
  const std::pair<std::string, std::string> corpus[] = {
      {"P6 99999 99999 255\n", "PNM: 99999 x 99999 pixels; supported: "},
      {"P6 8000 8000 255\n", "PNM: the file ends too early"},
      {"P5 99999999999999999999 1 255\n", "PNM: no number"},
      {"P5 -1 1 255\n", "PNM: no number"},
      {"P5 0 1 255\n", "PNM: 0 x 1 pixels"},
      {"P1 1 1 1", binary_only},
      {"P3 1 1 255 1 2 3", binary_only},
      {"P4 1 1 1", binary_only},
      {"P7\nWIDTH 1", binary_only},
      {"P5 1 1 0\n1", "PNM: values of up to 0"},
      {"P5 1 1 65535\n12", "PNM: values of up to 65535; only those"},
      {bmp(1 << 30, 1 << 30, ""), "BMP: 1073741824 x 1073741824 pixels"},
      {bmp(-1, 1, ""), "BMP: -1 x 1 pixels"},
      {bmp(8000, 8000, ""), "BMP: the file ends too early"},
      {bmp(1, 1, "1234", {.bits = 1}), "BMP: 1 bits a pixel, "},
      {bmp(1, 1, "1234", {.bits = 8, .compression = 1}),
       "BMP: 8 bits a pixel, compression 1, header of 40 bytes; save the image with 24 bits a "
       "pixel and without compression"},
      {bmp(1, 1, "1234", {.bits = 8}), "BMP: no palette before"},
      {os2, "header of 12 bytes; save"},
      {animation(slopes(3, 2)), "WebP: an animation; save one of its images"},
  };
  for (const auto& [file, words] : corpus) EXPECT_THAT(image_refusal(file), HasSubstr(words));
}

TEST(OtherFormats, AreSafeWithAnyDamage) {
  expect_safe("P6 3 2 255\n" + std::string(18, 'x'), "PNM: ");
  expect_safe("P5 3 2 99\n" + std::string(6, '\1'), "PNM: ");
  expect_safe(bmp(4, 2, std::string(24, 'x')), "BMP: ");
  expect_safe(bmp(4, 2, std::string(8, '\1'), {.bits = 8, .colors = kFourColors}), "BMP: ");
  expect_safe(as_webp(slopes(9, 14)), "WebP: ", 12);
  expect_safe(animation(slopes(3, 2)), "WebP: ", 12);
}
