// Packed shards return the samples that were packed, with few opens and reads of files.
#include <gmock/gmock.h>
#include <cstring>
#include "core/base/file.h"
#include "data/images/image_file.h"
#include "data/loader/loader.h"
#include "data/packed/shard.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/data/numbers.h"
#include "tests/data/options.h"
#include "tests/moved.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

static DatasetPtr make(const std::string& name, Split split, const Texts& options) {
  return chosen<DatasetChoice>(name, options).make({split});
}

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

struct SourceCase {
  const char* name;
  Texts options;
};
static std::ostream& operator<<(std::ostream& out, const SourceCase& s) { return out << s.name; }
class PackedAs : public testing::TestWithParam<std::tuple<Encoding, SourceCase>> {};
INSTANTIATE_TEST_SUITE_P(
    Sets, PackedAs,
    testing::Combine(
        testing::Values(Encoding::keep, Encoding::raw),
        testing::Values(SourceCase{"digits", {{"train_size", "300"}, {"test_size", "70"}}},
                        SourceCase{"shapes", {{"train_size", "200"}, {"test_size", "50"}}},
                        SourceCase{"shapes_jpeg", {{"train_size", "150"}, {"test_size", "40"}}})),
    [](const auto& info) {
      return std::string(std::get<1>(info.param).name) +
             (std::get<0>(info.param) == Encoding::keep ? "_kept" : "_raw");
    });

TEST_P(PackedAs, HoldsTheSameSamples) {
  const auto& [encoding, source] = GetParam();
  for (const Split split : {Split::train, Split::test}) {
    const TempFolder folder;
    const auto dataset = make(source.name, split, source.options);
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

// ---- byte layout, as documented in data/packed/shard.h

template <class T> static T number_at(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

TEST(Shard, LiesAsItIsDocumented) {
  const TempFolder folder;
  Numbers numbers(300);
  for (int i = 0; i < 10; ++i) numbers.class_names().emplace_back(1 + i % 2, char('a' + i));
  pack(numbers, Split::test, "a source", folder.path, {.shard_bytes = 4 * 200});
  const std::string shard = read_file(folder.path / "test-00001.shard", 1 << 20, Exit::data);
  ASSERT_EQ(shard.size(), 96 + 8 + 25 + 100 * (32 + 4u));
  EXPECT_EQ(shard.substr(0, 8),
            "\x89"
            "BSHARD\n");
  EXPECT_EQ(number_at<uint32_t>(shard, 8), 2u);     // version
  EXPECT_EQ(number_at<uint64_t>(shard, 16), 100u);  // records
  EXPECT_EQ(number_at<uint64_t>(shard, 24), 200u);  // first
  EXPECT_EQ(number_at<uint32_t>(shard, 32), 1u);    // last
  EXPECT_EQ(number_at<uint32_t>(shard, 36), 8u);    // source_size
  EXPECT_EQ(number_at<uint64_t>(shard, 40), 25u);   // names_size
  EXPECT_EQ(number_at<uint32_t>(shard, 48), 1u);    // channels
  EXPECT_EQ(number_at<uint32_t>(shard, 52), 2u);
  EXPECT_EQ(number_at<uint32_t>(shard, 56), 2u);
  EXPECT_EQ(number_at<uint32_t>(shard, 60), 10u);  // classes
  EXPECT_EQ(number_at<float>(shard, 80), 1.f / 255);
  EXPECT_EQ(shard.substr(96, 8), "a source");
  EXPECT_EQ(shard.substr(104, 25), std::string("a\0bb\0c\0dd\0e\0ff\0g\0hh\0i\0jj\0", 25));
  const size_t entry = 129 + 7 * 32;
  const uint64_t offset = number_at<uint64_t>(shard, entry);
  EXPECT_EQ(offset, 129 + 100 * 32 + 7 * 4u);
  EXPECT_EQ(number_at<uint32_t>(shard, entry + 8), 4u);
  EXPECT_EQ(number_at<uint32_t>(shard, entry + 24), 7u);  // label of 207
  EXPECT_EQ(number_at<uint8_t>(shard, offset), 207);
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

TEST(Packed, ReplacesAnEarlierPackingOfMoreShards) {
  const TempFolder folder;
  pack(Numbers(20), Split::train, "", folder.path, {.shard_bytes = 4 * 3});
  pack(Numbers(20), Split::test, "", folder.path, {.shard_bytes = 4 * 10});
  const PackedSplit made = pack(Numbers(6), Split::train, "", folder.path, {.shard_bytes = 4 * 3});
  EXPECT_EQ(made.shards, 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 2 + 2);
  EXPECT_EQ(open_packed(folder)->size(), 6);
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

TEST(Packed, NamesTheSampleOfAForeignError) {
  const TempFolder folder;
  Numbers numbers(3);
  numbers.on_read = [](int64_t i) {
    if (i == 1) throw std::bad_alloc();
  };
  EXPECT_EQ(complaint(Exit::memory, [&] { pack(numbers, Split::train, "", folder.path); }),
            "sample 1 (numbers/1.png): out of host memory");
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

TEST(Packed, PixelsOfOneShapeAreFixedAndFilesAreNot) {
  const TempFolder numbers, jpegs;
  pack(Numbers(1000), Split::train, "", numbers.path, {.shard_bytes = 4 * 100});
  EXPECT_TRUE(open_packed(numbers)->fixed_pixels());
  pack(*make("shapes_jpeg", Split::train, {{"train_size", "3"}}), Split::train, "", jpegs.path);
  EXPECT_FALSE(open_packed(jpegs)->fixed_pixels());
}
