// Every malformed IDX file is refused with one clear Error(Exit::data).
#include "data/sets/idx.h"
#include "data/images/file.h"
#include "tests/data/files.h"
#include "tests/moved.h"

using namespace bellows;

static const std::string kGood = idx({3, 4, 5});

static std::vector<uint8_t> parse(const std::string& bytes, int rank = 3) {
  static const TempFolder folder;
  return read_idx_file(folder.write("file", bytes), rank).bytes;
}
static std::string refusal(const std::string& bytes, int rank = 3) {
  const std::string what = complaint(Exit::data, [&] { parse(bytes, rank); });
  EXPECT_THAT(what, HasSubstr("/file: "));
  return what;
}

TEST(Idx, ReadsWhatIsLargerThanOneStepOfInflation) {
  const std::string large = idx({40, 300, 301});
  const std::vector<uint8_t> content = parse(gzip(large));
  EXPECT_TRUE(std::equal(content.begin(), content.end(), large.begin() + 16));
}

// As `cat a.gz b.gz` and parallel compressors write. The borders may be anywhere.
TEST(Idx, ReadsAGzipFileOfSeveralMembers) {
  for (const size_t at : {0, 3, 16, 40, 76}) {
    const std::string bytes = gzip(kGood.substr(0, at)) + gzip(kGood.substr(at)) + gzip("");
    const std::vector<uint8_t> content = parse(bytes);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), kGood.begin() + 16)) << at;
    EXPECT_EQ(content.size(), 60u) << at;
  }
  EXPECT_THAT(refusal(gzip(kGood) + gzip("x")), HasSubstr("goes on after its 60 bytes"));
}

// gunzip ignores it too.
TEST(Idx, IgnoresWhatFillsUpAGzipFile) {
  const std::string file = gzip(idx({6, 4, 5}));
  EXPECT_EQ(parse(file + std::string(512 - file.size() % 512, '\0')), parse(file));
  EXPECT_EQ(parse(file + "x"), parse(file));
}

TEST(Idx, RefusesEveryChangeOfAHeaderByte) {
  for (size_t at = 0; at < 16; ++at)
    for (int value = 0; value < 256; ++value) {
      std::string bytes = kGood;
      if (bytes[at] == char(value)) continue;
      bytes[at] = char(value);
      refusal(bytes);
    }
}

TEST(Idx, RefusesEveryTruncationAndEveryAddition) {
  for (const std::string& whole : {kGood, gzip(kGood)})
    for (size_t size = 0; size < whole.size(); ++size) refusal(whole.substr(0, size));
  EXPECT_THAT(refusal(kGood + "x"), HasSubstr("goes on after its 60 bytes"));
  EXPECT_THAT(refusal(gzip(kGood + "x")), HasSubstr("goes on after its 60 bytes"));
  EXPECT_THAT(refusal(kGood.substr(0, 40)), HasSubstr("truncated"));
}

// Some bits of gzip's own header do not affect the content: name, time, system.
TEST(Idx, NeverAcceptsOtherContentFromADamagedGzip) {
  const std::string good = gzip(kGood);
  int refused = 0;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << bit % 8));
    try {
      const std::vector<uint8_t> content = parse(bytes);
      EXPECT_TRUE(std::equal(content.begin(), content.end(), kGood.begin() + 16)) << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit, Exit::data);
      ++refused;
    }
  }
  EXPECT_GT(refused, int(8 * good.size()) * 8 / 10);
}

// 2^31 images are 1.6 TB. An attempt to allocate them would throw another exception.
TEST(Idx, AllocatesNoMoreThanItsFileCanHoldWhateverItsHeaderClaims) {
  for (const std::string& header : {idx_header({1u << 31, 28, 28}), idx_header({~0u, ~0u, ~0u})})
    for (const std::string& bytes : {header + kGood, gzip(header + kGood)})
      EXPECT_THAT(refusal(bytes), HasSubstr("a data set has from 1 to 4294967296 bytes"));
  EXPECT_THAT(refusal(idx_header({4, 1 << 15, 1 << 15}) + kGood),
              HasSubstr("truncated: 92 bytes cannot hold the 4294967296 bytes"));
}

TEST(Idx, RefusesEmptyAxesAndAnotherRank) {
  EXPECT_THAT(refusal(idx({0, 28, 28})), HasSubstr("axis 0 has size 0"));
  EXPECT_THAT(refusal(kGood, 1), HasSubstr("not 0 0 8 1"));
  EXPECT_THAT(refusal(std::string()), HasSubstr("shorter than an IDX header"));
}

// 10 MB of zeros are 10 kB of gzip.
TEST(Idx, InflatesOneByteMoreThanItsHeaderClaimsAtMost) {
  const std::string bomb = gzip(kGood + std::string(10 << 20, '\0'));
  ASSERT_LT(bomb.size(), size_t{20} << 10);
  const Moved inflated("data.inflated_bytes");
  EXPECT_THAT(refusal(bomb), HasSubstr("goes on after its 60 bytes"));
  EXPECT_EQ(inflated, 16 + 60 + 1);
}

TEST(ReadFile, RefusesMoreThan4GiB) {
  const TempFolder folder;
  const std::string sparse = folder.write("sparse", "");
  std::filesystem::resize_file(sparse, uint64_t(1) << 40);
  EXPECT_THAT(complaint(Exit::data, [&] { read_bytes(sparse); }), HasSubstr("larger than 4 GiB"));
}
