// JPEG and PNG files of every kind are decoded to RGB or refused with one clear Error(Exit::data).
#include <sys/resource.h>
#include <zlib.h>
#include "data/images/file.h"
#include "tests/data/decoded.h"

using namespace bellows;

static Pixels of_three(const Pixels& p) {
  Pixels rgb{p.height, p.width, 3, {}};
  for (size_t i = 0; i < p.bytes.size(); i += p.channels)
    for (int c = 0; c < 3; ++c) rgb.bytes.push_back(p.bytes[i + (p.channels >= 3 ? c : 0)]);
  return rgb;
}

static void expect_near(const Pixels& got, const Pixels& wanted, int tolerance) {
  ASSERT_EQ(std::pair(got.height, got.width), std::pair(wanted.height, wanted.width));
  for (size_t i = 0; i < got.bytes.size(); ++i)
    ASSERT_NEAR(got.bytes[i], wanted.bytes[i], tolerance) << i;
}

TEST(Jpeg, BecomesRgb) {
  for (const int channels : {1, 3})
    for (const int subsampling : {1, 2})
      for (const bool progressive : {false, true}) {
        const Pixels p = slopes(37, 51, channels);
        expect_near(decoded(as_jpeg(p, {95, subsampling, progressive})), of_three(p), 6);
      }
}

// Expected values are Pillow 13.0's. Ink 255 means no ink. Images of one color decode exactly.
TEST(Jpeg, OfFourInksBecomesRgb) {
  using Bytes = std::vector<uint8_t>;
  for (const auto& [inks, rgb] :
       std::initializer_list<std::pair<Bytes, Bytes>>{{{255, 255, 255, 255}, {255, 255, 255}},
                                                      {{200, 100, 50, 255}, {200, 100, 50}},
                                                      {{200, 100, 50, 180}, {141, 71, 35}},
                                                      {{13, 77, 254, 3}, {0, 1, 3}},
                                                      {{255, 0, 128, 0}, {0, 0, 0}}}) {
    Pixels p{17, 33, 4, {}};
    for (int i = 0; i < 17 * 33; ++i) p.bytes.insert(p.bytes.end(), inks.begin(), inks.end());
    const Pixels got = decoded(as_jpeg(p, {100}));
    ASSERT_EQ(got.bytes.size(), 17 * 33 * 3);
    for (size_t i = 0; i < got.bytes.size(); ++i) ASSERT_EQ(got.bytes[i], rgb[i % 3]) << i;
  }
}

TEST(Jpeg, IsRefusedWhereverItEndsTooEarly) {
  for (const bool progressive : {false, true}) {
    const std::string file = as_jpeg(slopes(33, 40), {75, 2, progressive});
    for (size_t size = 0; size < file.size(); ++size) image_refusal(file.substr(0, size));
  }
}

// As other decoders read them: an unknown JFIF revision, and bytes between two markers.
TEST(Jpeg, WithAnOddHeaderHasAllItsPixels) {
  const std::string file = as_jpeg(slopes(8, 8));
  std::string revision = file, padded = file;
  revision[file.find("JFIF") + 5] = 0;
  padded.insert(file.find("\xff\xdb"), 3, '\0');
  for (const std::string& odd : {revision, padded})
    EXPECT_EQ(decoded(odd).bytes, decoded(file).bytes);
}

// Height and width: 16 bits each, 5 bytes after the start of the frame. It would take 12.9 GB.
TEST(Jpeg, WithAHugeSizeInItsHeaderIsRefused) {
  std::string file = as_jpeg(slopes(8, 8));
  const size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, file.npos);
  for (int i = 0; i < 4; i += 2) file[frame + 5 + i] = char(0xff), file[frame + 6 + i] = char(0xdc);
  EXPECT_THAT(image_refusal(file), HasSubstr("JPEG: 65500 x 65500 pixels"));
}

// Returns a gray JPEG whose second scan is repeated. libjpeg accepts any number of scans.
static std::string of_scans(int side, size_t scans) {
  std::string file = as_jpeg({side, side, 1, std::vector<uint8_t>(size_t(side) * side, 128)},
                             {.scans = {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}}});
  const size_t second = file.rfind("\xff\xc4");  // its table comes first
  const std::string scan = file.substr(second, file.size() - 2 - second);
  for (size_t i = 2; i < scans; ++i) file.insert(second, scan);
  return file;
}

TEST(Jpeg, OfMoreScansThanEncodersWriteIsRefused) {
  EXPECT_EQ(decoded(of_scans(16, 100)).bytes, std::vector<uint8_t>(3 * 16 * 16, 128));
  EXPECT_THAT(image_refusal(of_scans(16, 101)),
              HasSubstr("JPEG: more than 100 scans of 16 x 16 pixels"));
}

// The limit is 96 scans for 16 million pixels, and 24 for 67 million, the largest size.
TEST(Jpeg, OfFewerScansIsRefusedIfItsImageIsLarge) {
  EXPECT_EQ(decoded(of_scans(4096, 20)).height, 4096);
  const std::string bomb = of_scans(4096, 97);
  EXPECT_LT(bomb.size(), size_t{1} << 20);
  EXPECT_THAT(image_refusal(bomb), HasSubstr("JPEG: more than 96 scans of 4096 x 4096 pixels"));
}

TEST(Png, OfEveryKindBecomesRgb) {
  for (const int channels : {1, 2, 3, 4})
    for (const int bits : {8, 16})
      for (const bool interlaced : {false, true}) {
        const Pixels p = slopes(11, 13, channels);
        EXPECT_EQ(decoded(as_png(p, bits, interlaced)).bytes, of_three(p).bytes)
            << channels << " channels of " << bits << " bits";
      }
  Pixels places = slopes(4, 3, 1);
  for (size_t i = 0; i < places.bytes.size(); ++i) places.bytes[i] = uint8_t(i % 3);
  const Pixels colored = decoded(as_png(places, 8, false, {{1, 2, 3}, {40, 50, 60}, {7, 8, 9}}));
  for (size_t i = 0; i < places.bytes.size(); ++i)
    EXPECT_THAT(std::vector(&colored.bytes[3 * i], &colored.bytes[3 * i] + 3),
                testing::ElementsAreArray(
                    std::vector<std::vector<int>>{{1, 2, 3}, {40, 50, 60}, {7, 8, 9}}[i % 3]));
}

// Checksums cover every byte.
TEST(Png, IsRefusedWithAnyWrongBitAndWhereverItEnds) {
  const std::string file = as_png(slopes(5, 6));
  for (size_t size = 0; size < file.size(); ++size) image_refusal(file.substr(0, size));
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string bytes = file;
    bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << bit % 8));
    image_refusal(bytes);
  }
}

TEST(Png, WithAHugeSizeInItsHeaderIsRefused) {
  std::string file = as_png(slopes(4, 4));
  for (const size_t at : {16, 20}) file.replace(at, 4, std::string{0, 0, char(0xff), char(0xdc)});
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(&file[12]), 17);
  for (int i = 0; i < 4; ++i) file[29 + i] = char(sum >> (24 - 8 * i));
  EXPECT_THAT(image_refusal(file), HasSubstr("PNG: 65500 x 65500 pixels"));
}

static std::string big_endian(uLong n) {
  return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)};
}
static std::string chunk(const std::string& type_and_data) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(type_and_data.data());
  const uLong sum = crc32(0, bytes, uInt(type_and_data.size()));
  return big_endian(type_and_data.size() - 4) + type_and_data + big_endian(sum);
}

// Runs in a process of its own to measure the peak memory. Exits with the growth in MB.
[[noreturn]] static void exit_with_growth(const std::string& file) {
  const auto peak_mb = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;
  };
  const auto before = peak_mb();
  decoded(file);
  std::_Exit(int(std::min<long>(peak_mb() - before, 255)));
}

// A thousand such chunks would inflate 8 MB to 8 GB. The first one is a color profile, the others
// text.
TEST(Png, InflatesNoChunkThatChangesNoPixel) {
  std::string text(7 << 20, 'x'), packed(compressBound(text.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(text.data()), text.size());
  packed.resize(size);
  const std::string empty_key("k\0\0", 3);
  std::string chunks = chunk("iCCP" + empty_key + packed);
  for (int i = 0; i < 32; ++i) chunks += chunk("zTXt" + empty_key + packed);
  const Pixels p = slopes(5, 6);
  std::string file = as_png(p);
  file.insert(33, chunks);  // after the header
  EXPECT_EQ(decoded(file).bytes, p.bytes);
  EXPECT_EXIT(
      exit_with_growth(file), [](int status) { return WEXITSTATUS(status) < 32; }, "");
}

TEST(ImageFile, TellsTheShapeFromTheHeaderAlone) {
  const std::string jpeg = as_jpeg(slopes(9, 5, 1)), png = as_png(slopes(9, 5, 4));
  for (const std::string& header :
       {jpeg.substr(0, jpeg.find("\xff\xda") + 10), png.substr(0, png.find("IDAT") + 4)}) {
    EXPECT_EQ(image_shape(image_bytes(header)), (Shape{3, 9, 5}));
    image_refusal(header);
  }
}

TEST(ImageFile, IsRefusedByTheFormatThatItsBytesHave) {
  EXPECT_EQ(image_refusal("GIF89a"), "a GIF file; only JPEG, PNG, BMP, PNM and WebP are read");
  EXPECT_THAT(image_refusal(std::string("II*\0", 4)), HasSubstr("a TIFF file"));
  EXPECT_THAT(image_refusal(std::string("\0\0\0\x18", 4) + "ftypheic"), HasSubstr("a HEIC file"));
  EXPECT_THAT(image_refusal(std::string("\0\0\0\x1c", 4) + "ftypavif"), HasSubstr("a AVIF file"));
  EXPECT_THAT(image_refusal("<!DOCTYPE html>"), HasSubstr("a HTML file"));
  EXPECT_THAT(image_refusal("version https://git-lfs.github.com/spec/v1"),
              HasSubstr("a Git LFS pointer"));
  EXPECT_EQ(image_refusal("some text"), "neither JPEG nor PNG, BMP, PNM or WebP");
  EXPECT_EQ(image_refusal(""), "the file is empty");
}

TEST(ImageFile, MayHaveAsManyPixelsAsTheOptionSays) {
  const std::string file = as_png(slopes(20, 30));
  most_pixels() = 599;
  EXPECT_EQ(image_refusal(file), "PNG: 30 x 20 pixels; supported: 1 to 599 (data.max_pixels)");
  most_pixels() = 600;
  EXPECT_EQ(decoded(file).bytes, slopes(20, 30).bytes);
  most_pixels() = kMostPixels;
}

// as_png() takes the upper bytes: 15 of 255 is a value of 12 bits.
TEST(Png, Of12BitsIn16IsWarnedOfOnce) {
  Pixels dark = slopes(4, 4);
  for (uint8_t& byte : dark.bytes) byte /= 16;
  for (const auto& [image, warnings] :
       {std::pair(Pixels{4, 4, 3, std::vector<uint8_t>(48)}, 0), std::pair(slopes(4, 4), 0),
        std::pair(dark, 1), std::pair(dark, 0)}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(decoded(as_png(image, 16)).bytes, image.bytes);
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::ranges::count(told, '\n'), warnings) << told;
    if (warnings) {
      EXPECT_THAT(told, HasSubstr("warning: PNG: an image of 16 bits has no value above 4095"));
    }
  }
}
