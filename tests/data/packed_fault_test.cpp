// Shards that are truncated, damaged, foreign or of another packing: one error line with the path.
#include <cstring>
#include "core/base/crc32c.h"
#include "core/base/file.h"
#include "data/loader/loader.h"
#include "data/packed/shard.h"
#include "tests/data/files.h"
#include "tests/data/numbers.h"
#include "tests/data/options.h"

using namespace bellows;
namespace fs = std::filesystem;

static constexpr size_t kHead = 96, kNames = 20, kRecord = 32;

// A shard of six samples of four bytes. Each test damages a copy, whose bytes lie as
// data/packed/shard.h documents.
class Spoilt : public testing::Test {
 protected:
  Spoilt() {
    Numbers numbers(6);
    for (char name = 'a'; name < 'k'; ++name) numbers.class_names().emplace_back(1, name);
    pack(numbers, Split::train, "abc", folder.path);
    good = read_file(path, 1 << 20, Exit::data);
    EXPECT_EQ(good.size(), kHead + 3 + kNames + 6 * (kRecord + 4));
    EXPECT_TRUE(
        good.starts_with("\x89"
                         "BSHARD\n"));
  }
  void write(const std::string& bytes) const { folder.write("train-00000.shard", bytes); }
  DatasetPtr open() const { return open_packed(folder); }
  std::string refusal(const std::string& bytes) const {
    write(bytes);
    return complaint(Exit::data, [&] { open(); });
  }
  // Returns the shard with `value` at byte `at` and with a correct checksum of head and index.
  template <class T> std::string forged(size_t at, T value) const {
    std::string bytes = good;
    std::memcpy(&bytes[at], &value, sizeof value);
    const uint32_t none = 0;
    std::memcpy(&bytes[12], &none, sizeof none);
    const uint32_t crc = crc32c(bytes_of(bytes.substr(0, kHead + 3 + kNames + 6 * kRecord)));
    std::memcpy(&bytes[12], &crc, sizeof crc);
    return bytes;
  }
  static size_t entry(size_t record) { return kHead + 3 + kNames + record * kRecord; }

  const TempFolder folder;
  const std::string path = (folder.path / "train-00000.shard").string();
  std::string good;
};

TEST_F(Spoilt, IsReadWhileItIsNot) {
  write(forged(12, uint32_t{5}));
  EXPECT_EQ(open()->size(), 6) << "a forger's seal is right, or the tests below show nothing";
}

TEST_F(Spoilt, CutOffAnywhereIsRefused) {
  for (size_t size = 0; size < good.size(); ++size)
    ASSERT_THAT(refusal(good.substr(0, size)), StartsWith(path)) << size;
  EXPECT_EQ(refusal(good.substr(0, good.size() - 6)),
            path + ", record 4 of 6: truncated: the file has 329 bytes; pack it again");
  EXPECT_THAT(refusal(good + "x"), HasSubstr("goes on after its last record, at byte 335 of 336"));
}

TEST_F(Spoilt, ABitInAnyByteInFrontOfTheRecordsIsFound) {
  for (size_t bit = 0; bit < 8 * entry(6); bit += 7) {
    std::string bytes = good;
    bytes[bit / 8] ^= char(1 << bit % 8);
    ASSERT_THAT(refusal(bytes), StartsWith(path)) << bit;
  }
}

TEST_F(Spoilt, AnyBitOfARecordIsFoundWhenItIsRead) {
  Scratch scratch;
  for (size_t bit = 8 * entry(6); bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] ^= char(1 << bit % 8);
    write(bytes);
    const auto packed = open();
    const int64_t hit = int64_t(bit / 8 - entry(6)) / 4;
    for (int64_t i = 0; i < 6; ++i) {
      if (i == hit)
        ASSERT_THAT(complaint(Exit::data, [&] { packed->at(i, scratch); }),
                    HasSubstr("damaged: checksum "));
      else
        ASSERT_EQ(packed->at(i, scratch).pixels[0], i);
    }
  }
}

TEST_F(Spoilt, ForeignFilesAndOtherVersionsAreNamed) {
  EXPECT_EQ(refusal(std::string(500, 'x')),
            path + ": not a shard of packed samples: it begins with other bytes");
  const auto of_version = [&](int version) {
    return cat(path, ": of format version ", version, ", this program reads 2; pack it again ",
               "with  trainer pack --config FILE --out FOLDER");
  };
  std::string first = forged(8, uint32_t{1});
  first.erase(40, 8);  // version 1 had no names_size
  EXPECT_EQ(refusal(first), of_version(1));
  EXPECT_EQ(refusal(forged(8, uint32_t{3})), of_version(3));
  fs::remove(path);
  EXPECT_THAT(complaint(Exit::data, [&] { open(); }),
              HasSubstr("no such shard; write  trainer pack --config FILE --out "));
  fs::create_directory(path);
  EXPECT_EQ(complaint(Exit::data, [&] { open(); }), path + ": not a regular file");
}

// Indices that no packer writes, with a correct checksum.
TEST_F(Spoilt, ForgedIndicesAreRefused) {
  const auto record = [&](int i, const std::string& what) {
    return AllOf(StartsWith(cat(path, ", record ", i, " of 6: ")), HasSubstr(what));
  };
  EXPECT_THAT(refusal(forged(entry(2), uint64_t{1} << 62)),
              record(2, "at byte 4611686018427387904"));
  EXPECT_THAT(refusal(forged(entry(2) + 8, uint32_t{5})), record(2, "5 bytes are not 1 x 2 x 2"));
  EXPECT_THAT(refusal(forged(entry(1) + 16, ~uint32_t{0})), record(1, "4294967295 pixels"));
  EXPECT_THAT(refusal(forged(entry(5) + 24, uint32_t{10})),
              record(5, "label 10, not one of 0 to 9"));
  EXPECT_THAT(refusal(forged(entry(0) + 28, uint32_t{3})), record(0, "of unknown form 3"));
  EXPECT_THAT(refusal(forged(16, ~uint64_t{0})), HasSubstr("truncated in its index"));
  EXPECT_THAT(refusal(forged(36, ~uint32_t{0})), HasSubstr("truncated in its index"));
  EXPECT_THAT(refusal(forged(40, ~uint64_t{0})), HasSubstr("truncated in its index"));
  EXPECT_THAT(refusal(forged(48, uint32_t{5})), HasSubstr("an invalid head"));
  EXPECT_THAT(refusal(forged(60, uint32_t{9})), HasSubstr("an invalid head"));
  EXPECT_THAT(refusal(forged(52, ~uint64_t{0})), HasSubstr("an invalid head"));
  EXPECT_THAT(refusal(forged(kHead - 16, NAN)), HasSubstr("an invalid head"));
  EXPECT_THAT(refusal(forged(kHead + 3 + 1, 'x')), HasSubstr("an invalid head"));
  EXPECT_THAT(refusal(forged(kHead + 3 + kNames - 1, 'x')), HasSubstr("an invalid head"));
  EXPECT_THAT(refusal(forged(24, uint64_t{1})), HasSubstr("begins with sample 1, not 0"));
}

TEST_F(Spoilt, AMissingShardIsNamed) {
  EXPECT_THAT(refusal(forged(32, uint32_t{0})),
              AllOf(HasSubstr("train-00001.shard: missing: packing did not end")));
}

TEST(Packing, ShardsOfTwoDoNotMix) {
  const TempFolder a, b;
  pack(Numbers(20), Split::train, "one", a.path, {.shard_bytes = 40});
  pack(Numbers(20), Split::train, "other", b.path, {.shard_bytes = 40});
  fs::copy_file(b.path / "train-00001.shard", a.path / "train-00001.shard",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(complaint(Exit::data, [&] { open_packed(a); }),
              HasSubstr("train-00001.shard: written by another run of trainer pack than "));
}

// A file that shrinks while it is open gives an error, not a signal.
TEST_F(Spoilt, AShardThatShrinksWhileItIsReadIsAnError) {
  write(good);
  const auto packed = open();
  fs::resize_file(path, entry(6) + 4 * 5);
  Scratch scratch;
  EXPECT_EQ(packed->at(4, scratch).pixels[0], 4);
  EXPECT_THAT(complaint(Exit::data, [&] { packed->at(5, scratch); }), HasSubstr("ends at byte "));
}
