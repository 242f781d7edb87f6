// Packed shards return the samples that were packed, with few opens and reads of files.
#include "data/images/image_file.h"
#include "data/loader/loader.h"
#include "data/packed/shard.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/data/numbers.h"
#include "tests/data/options.h"
#include "tests/moved.h"

using namespace bellows;
namespace fs = std::filesystem;

// Returns the pixels as (C, H, W), from a planar or an interleaved sample.
static std::vector<uint8_t> pixels_of(const Sample& s) {
  const int64_t channels = s.shape[0], plane = s.shape[1] * s.shape[2];
  std::vector<uint8_t> pixels(s.pixels, s.pixels + s.shape.numel());
  if (s.part && s.part->interleaved)
    for (int64_t i = 0; i < s.shape.numel(); ++i)
      pixels[i] = s.pixels[i % plane * channels + i / plane];
  return pixels;
}

static void expect_same(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.info().input.shape, b.info().input.shape);
  EXPECT_EQ(a.info().classes, b.info().classes);
  EXPECT_EQ(a.info().names, b.info().names);
  EXPECT_EQ(a.info().mean, b.info().mean);
  EXPECT_EQ(a.info().std, b.info().std);
  Scratch one, two;
  for (int64_t i = 0; i < a.size(); ++i) {
    const Sample x = a.at(i, one), y = b.at(i, two);
    ASSERT_EQ(x.shape, y.shape) << i;
    ASSERT_EQ(x.label, y.label) << i;
    ASSERT_EQ(pixels_of(x), pixels_of(y)) << i;
  }
}

// ---- the same samples

TEST(Packed, HoldsTheSameSamples) {
  for (const Encoding encoding : {Encoding::keep, Encoding::raw})
    for (const char* name : {"digits", "shapes", "shapes_jpeg"})
      for (const Split split : {Split::train, Split::test}) {
        SCOPED_TRACE(cat(name, encoding == Encoding::keep ? ", kept" : ", raw"));
        const TempFolder folder;
        const auto dataset = make(name, split, {{"train_size", "150"}, {"test_size", "40"}});
        const PackedSplit made = pack(*dataset, split, "source", folder.path,
                                      {.encoding = encoding, .shard_bytes = int64_t{20} << 20});
        const auto packed = open_packed(folder, split);
        expect_same(*dataset, *packed);
        EXPECT_EQ(made.samples, dataset->size());
        int64_t bytes = 0, files = 0;
        for (const auto& entry : fs::directory_iterator(folder.path)) {
          bytes += static_cast<int64_t>(fs::file_size(entry));
          ++files;
        }
        EXPECT_EQ(made.bytes, bytes);
        EXPECT_EQ(made.shards, files);
      }
}

// ---- files and sizes

TEST(Packed, KeepsFilesByteForByteAndMakesOthersSmaller) {
  const TempFolder pictures, kept, small;
  const std::string tiny = as_jpeg(slopes(30, 50)), large = as_jpeg(slopes(160, 90));
  const std::string png = as_png(slopes(100, 130));
  pictures.write("train/a/0.jpg", tiny);
  pictures.write("train/a/1.jpg", large);
  pictures.write("train/b/2.png", png);
  const auto dataset = make("image_folder", Split::train, {{"root", pictures.path}});
  pack(*dataset, Split::train, "", kept.path);
  pack(*dataset, Split::train, "", small.path, {.side = 60, .quality = 95});
  const auto whole = open_packed(kept), shrunk = open_packed(small);
  const auto file = [](const Dataset& d, int64_t i) {
    const auto bytes = d.encoded(i)->file;
    return std::string(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(file(*whole, 0), tiny);
  EXPECT_EQ(file(*whole, 1), large);
  EXPECT_EQ(file(*whole, 2), png);
  EXPECT_EQ(file(*shrunk, 0), tiny) << "it is small as it is";
  Scratch scratch;
  const Sample second = shrunk->at(1, scratch);
  EXPECT_EQ(second.shape, (Shape{3, 106, 60}));
  // Red increases from the top of the image to the bottom.
  EXPECT_NEAR(second.pixels[0], 0, 6);
  EXPECT_NEAR(second.pixels[(105 * 60 + 30) * 3], 253, 6);
  EXPECT_EQ(shrunk->at(2, scratch).shape, (Shape{3, 60, 78}));
  EXPECT_EQ(shrunk->at(2, scratch).label, 1);
  EXPECT_EQ(file(*shrunk, 2).substr(1, 3), "PNG") << "without loss, as it was";
}

TEST(Packed, AsJpegTheyAreAboutTheSame) {
  const TempFolder folder;
  const auto shapes = make("shapes", Split::train, {{"train_size", "40"}});
  pack(*shapes, Split::train, "", folder.path, {.encoding = Encoding::jpeg, .quality = 95});
  const auto packed = open_packed(folder);
  Scratch one, two;
  double difference = 0;
  for (int64_t i = 0; i < 40; ++i) {
    const auto a = pixels_of(shapes->at(i, one)), b = pixels_of(packed->at(i, two));
    ASSERT_EQ(a.size(), b.size());
    for (size_t p = 0; p < a.size(); ++p) difference += std::abs(a[p] - b[p]) / 40. / 3072;
  }
  EXPECT_LT(difference, 8);
  EXPECT_GT(difference, 0);
}

TEST(Packed, RefusesWhatCannotBeReadUnlessItIsLeftOutBefore) {
  const TempFolder folder;
  const auto numbers = std::make_shared<Numbers>(20);
  numbers->on_read = [](int64_t i) {
    if (i % 6 == 5) fail(Exit::data, "unreadable");
  };
  EXPECT_EQ(complaint(Exit::data, [&] { pack(*numbers, Split::train, "", folder.path); }),
            "sample 5 (numbers/5.png): unreadable");
  testing::internal::CaptureStderr();
  const auto rest = without_damaged(numbers, OnDamaged::skip);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("warning: numbers/11.png: skipped: unreadable\n"));
  EXPECT_EQ(pack(*rest, Split::train, "", folder.path).samples, 17);
  Scratch scratch;
  EXPECT_EQ(open_packed(folder)->at(5, scratch).pixels[0], 6);
}

TEST(Packed, RefusesWhatNoJpegCanHold) {
  const TempFolder pictures, folder;
  pictures.write("train/a/0.png", as_png(slopes(4, 4)));
  pictures.write("train/a/1.png", as_png(slopes(2, 70000)));
  const auto dataset = make("image_folder", Split::train, {{"root", pictures.path}});
  const PackOptions options{.encoding = Encoding::jpeg};
  EXPECT_THAT(
      complaint(Exit::data, [&] { pack(*dataset, Split::train, "", folder.path, options); }),
      AllOf(HasSubstr("sample 1 ("), HasSubstr("a/1.png): JPEG: "), HasSubstr("65500 pixels")));
}

// scaled_decode gives the same for a packed file as for the file itself.
TEST(Packed, DecodesAsMuchOfAFileAsIsWanted) {
  const TempFolder folder;
  const auto jpegs = make("shapes_jpeg", Split::train, {{"train_size", "12"}});
  pack(*jpegs, Split::train, "", folder.path);
  const auto packed = open_packed(folder);
  const ViewOf wanted = [](const Shape&) { return View{{10, 12, 30, 40}, 2.5}; };
  Scratch one, two;
  for (int64_t i = 0; i < 12; ++i) {
    const Sample a = jpegs->at_least(i, wanted, one), b = packed->at_least(i, wanted, two);
    EXPECT_EQ(b.part->reduced, 2);
    EXPECT_EQ(one, two);
    EXPECT_EQ(a.label, b.label);
  }
}

// ---- opens and reads

TEST(Packed, OpensAFileAShardAndReadsOnceASample) {
  const TempFolder pictures, folder;
  for (int i = 0; i < 9; ++i) pictures.write(cat("train/a/", i, ".png"), as_png(slopes(8, 8)));
  const auto dataset = make("image_folder", Split::train, {{"root", pictures.path}});
  pack(*dataset, Split::train, "", folder.path);
  const auto epoch_opens = [](DatasetPtr dataset) {
    const Moved opens("data.file_opens");
    Scratch scratch;
    for (int epoch = 0; epoch < 3; ++epoch)
      for (int64_t i = 0; i < dataset->size(); ++i) dataset->at(i, scratch);
    return int64_t(opens);
  };
  EXPECT_EQ(epoch_opens(dataset), 27);
  const Moved opens("data.file_opens"), reads("data.packed_reads");
  EXPECT_EQ(epoch_opens(open_packed(folder)), 0);
  EXPECT_EQ(opens, 1);
  EXPECT_EQ(reads, 27);
}
