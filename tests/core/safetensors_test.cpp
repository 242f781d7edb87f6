// The safetensors format: round trips, and a corpus of files that must be refused.
#include "core/tensor/safetensors.h"
#include <fmt/format.h>
#include <cstring>
#include "core/base/crc32c.h"
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"
#include "tests/matchers.h"
#include "tests/refusal.h"
#include "tests/temp_folder.h"

using namespace bellows;

namespace {

class SafeTensorsFile : public testing::Test {
 protected:
  std::string content() { return read_file(path, 1 << 26, Exit::data); }
  // Removes the old file first: ext4 syncs a file that was truncated and rewritten.
  void put(std::string_view bytes) {
    std::filesystem::remove(path);
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
  }
  // Returns the error message, "" if the file was accepted.
  std::string refusal() {
    const Refusal refused = bellows::refused([&] { read_safetensors(path); });
    if (refused.exit == Exit::done) return "";
    EXPECT_EQ(refused.exit, Exit::checkpoint) << refused.message;
    EXPECT_THAT(refused.message, HasSubstr(path.native()));
    return refused.message;
  }
  std::string refusal_of(const std::string& bytes) {
    put(bytes);
    return refusal();
  }

  const TempFolder temporary;
  const Path folder = temporary.path;
  Path path = folder / "m.safetensors";
};

// Builds a file without the writer under test.
std::string framed(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'x');
}

NamedTensors small() {
  return {{"fc.bias", tensor_of<uint8_t>({1, 2, 3}, {3})},
          {"fc.weight", tensor_of<float>({1, -2, 0.5f, 4}, {2, 2})}};
}

}  // namespace

TEST_F(SafeTensorsFile, EveryDtypeAndShapeComesBackBitForBit) {
  NamedTensors tensors;
  for (const DType dtype :
       {DType::u8, DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32})
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 5}, Shape{2, 3, 1, 2, 1, 2}}) {
      const Tensor t(shape, dtype);
      for (size_t i = 0; i < t.nbytes(); ++i) t.bytes()[i] = std::byte(37 * i + tensors.size());
      tensors.push_back({cat(name_of(dtype), ".", shape), t});
    }
  const Metadata metadata = {{"step", "12"}, {"odd \"key\"\n", "\u00e9\\"}, {"", ""}};
  write_safetensors(path, tensors, metadata);
  const SafeTensors read = read_safetensors(path);
  EXPECT_EQ(read.metadata, metadata);
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, t] : tensors) {
    const auto found = std::ranges::find(read.tensors, name, &NamedTensor::name);
    ASSERT_NE(found, read.tensors.end()) << name;
    EXPECT_EQ(found->tensor.dtype(), t.dtype());
    EXPECT_EQ(found->tensor.shape(), t.shape());
    EXPECT_EQ(std::memcmp(found->tensor.bytes(), t.bytes(), t.nbytes()), 0) << name;
  }
}

TEST_F(SafeTensorsFile, DataIsAlignedToItsDtype) {
  write_safetensors(path, small());
  uint64_t length = 0;
  std::memcpy(&length, content().data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(read_safetensors(path).tensors[0].name, "fc.weight");  // f32 before u8
}

TEST_F(SafeTensorsFile, FilesOfOtherWritersNeedNoChecksums) {
  put(framed(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"
             "   ",
             8));
  const SafeTensors read = read_safetensors(path);
  ASSERT_EQ(read.tensors.size(), 1u);
  EXPECT_EQ(read.tensors[0].tensor.shape(), Shape{2});
  EXPECT_EQ(refusal_of(framed("{}", 0)), "");
}

TEST_F(SafeTensorsFile, RefusesEveryLength) {
  write_safetensors(path, small(), {{"step", "3"}});
  const std::string whole = content();
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal_of(whole.substr(0, length)), "") << length;
  EXPECT_NE(refusal_of(whole + "x"), "");
}

TEST_F(SafeTensorsFile, RefusesEveryFlippedBit) {
  for (const bool with_tensors : {true, false}) {
    write_safetensors(path, with_tensors ? small() : NamedTensors(), {{"step", "3"}});
    std::string bytes = content();
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= char(1 << bit % 8);
      EXPECT_NE(refusal_of(bytes), "") << "byte " << bit / 8 << " bit " << bit % 8;
      bytes[bit / 8] ^= char(1 << bit % 8);
    }
    EXPECT_EQ(refusal_of(bytes), "");
  }
}

TEST_F(SafeTensorsFile, DamageNamesTheTensor) {
  write_safetensors(path, {{"a", full({100}, 1)}, {"b", full({100'000}, 2)}});
  const std::string whole = content();
  for (const size_t from_end : {size_t{1}, size_t{200'000}, size_t{400'000}}) {
    std::string bytes = whole;
    bytes[bytes.size() - from_end] ^= 1;
    EXPECT_THAT(refusal_of(bytes), HasSubstr("tensor 'b' is damaged"));
  }
}

TEST_F(SafeTensorsFile, RefusesANewerVersion) {
  std::string text = R"({"__metadata__":{"bellows.format":"2","crc32c":"00000000"}})";
  text.replace(text.find("00000000"), 8, fmt::format("{:08x}", crc32c(bytes_of(text))));
  EXPECT_THAT(refusal_of(framed(text, 0)), HasSubstr("written in format version 2"));
}

// Each header with a part of its error message; 16 bytes of data follow.
TEST_F(SafeTensorsFile, RefusesBadHeaders) {
  const auto one = [](const std::string& entry) { return "{\"w\":" + entry + "}"; };
  const std::string good = R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})";
  ASSERT_EQ(refusal_of(framed(one(good), 16)), "");
  std::string objects;  // of deep nesting, as the one before it
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  const std::pair<std::string, std::string> corpus[] = {
      {"", "no JSON"},
      {"[]", "no JSON"},
      {one(good).substr(0, 30), "no JSON"},
      {std::string("{\"w\xff\":") + good + "}", "no JSON"},
      {"{}", "its tensors have 0 bytes, the file has 16"},
      {one("1"), "not an object"},
      {one("\"F32\""), "not an object"},
      {one("[" + good + "]"), "not an object"},
      {one("{}"), "needs dtype, shape and data_offsets"},
      {one(R"({"dtype":"F32","shape":[4]})"), "needs dtype"},
      {one(R"({"dtype":"F32","data_offsets":[0,16]})"), "needs dtype"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16],"x":"y"})"), "more than 3 keys"},
      {one(R"({"dtype":"F32","dtype":"F32","shape":[4]})"), "'dtype' appears"},
      {"{\"w\":" + good + ",\"w\":" + good + "}", "'w' appears twice"},
      {one(R"({"dtype":"F31","shape":[4],"data_offsets":[0,16]})"), "dtype F31"},
      {one(R"({"dtype":"I32","shape":4,"data_offsets":[0,16]})"), "no valid 'shape'"},
      {one(R"({"dtype":"I32","shape":[-4],"data_offsets":[0,16]})"), "no valid 'shape'"},
      {one(R"({"dtype":"I32","shape":[4.0],"data_offsets":[0,16]})"), "no valid 'shape'"},
      {one(R"({"dtype":"I32","shape":[true],"data_offsets":[0,16]})"), "no valid 'shape'"},
      {one(R"({"dtype":"I32","shape":[{}],"data_offsets":[0,16]})"), "no valid 'shape'"},
      {one(R"({"dtype":"I32","shape":[1,1,1,1,1,1,4],"data_offsets":[0,16]})"), "axes"},
      {one(R"({"dtype":"I32","shape":[3],"data_offsets":[0,16]})"), "does not fill"},
      {one(R"({"dtype":"F64","shape":[4],"data_offsets":[0,16]})"), "does not fill"},
      {one(R"({"dtype":"I32","shape":[4],"data_offsets":[16,0]})"), "begins at byte 16"},
      {one(R"({"dtype":"I32","shape":[4],"data_offsets":[0]})"), "no valid 'data_offsets'"},
      {one(R"({"dtype":"I32","shape":[8],"data_offsets":[0,32]})"), "have 32 bytes"},
      {one(R"({"dtype":"I32","shape":[3],"data_offsets":[4,16]})"), "begins at byte 4"},
      {one(R"({"dtype":"U8","shape":[4294967296,4294967296,16],"data_offsets":[0,16]})"),
       "does not fill"},
      {one(R"({"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})"),
       "does not fill"},
      {one(R"({"dtype":"I32","shape":[18446744073709551615],"data_offsets":[0,16]})"),
       "no valid 'shape'"},
      {one(R"({"dtype":"I32","shape":[99999999999999999999],"data_offsets":[0,16]})"),
       "no valid 'shape'"},
      {R"({"a":{"dtype":"I32","shape":[3],"data_offsets":[0,12]},)"
       R"("b":{"dtype":"I32","shape":[2],"data_offsets":[8,16]}})",
       "'b' begins at byte 8 of the data, the one before it ends at 12"},
      {R"({"a":{"dtype":"I32","shape":[4],"data_offsets":[0,16]},)"
       R"("b":{"dtype":"I32","shape":[0],"data_offsets":[8,8]}})",
       "begins at byte 8"},
      {R"({"__metadata__":{"a":1},"w":)" + good + "}", "no text for 'a'"},
      {R"({"__metadata__":{"a":{}},"w":)" + good + "}", "no text for 'a'"},
      {R"({"__metadata__":{"a":"1","a":"2"},"w":)" + good + "}", "'a' appears twice"},
      {R"({"__metadata__":{"crc32c.w":"00000000"},"w":)" + good + "}", "lost its checksum"},
      {"{\"w\":" + std::string(100'000, '['), path},
      {objects, path},
  };
  for (const auto& [header, words] : corpus)
    EXPECT_THAT(refusal_of(framed(header, 16)), HasSubstr(words)) << header;
}

TEST_F(SafeTensorsFile, RefusesMoreEntriesThanAnyModelHas) {
  std::string tensors = "{\"__metadata__\":{", keys = tensors;
  for (int i = 0; i <= 1 << 18; ++i) keys += fmt::format("{}\"{}\":\"\"", i ? "," : "", i);
  EXPECT_THAT(refusal_of(framed(keys + "}}", 0)),
              HasSubstr("'__metadata__' has more than 262144 keys"));
  tensors += "}";
  for (int i = 0; i <= 1 << 17; ++i)
    tensors += fmt::format(R"(,"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i);
  EXPECT_THAT(refusal_of(framed(tensors + "}", 0)), HasSubstr("has more than 131073 keys"));
}

TEST_F(SafeTensorsFile, RefusesAHeaderLongerThanTheFileOrTheFormat) {
  const auto with_length = [&](uint64_t length) {
    std::string bytes = framed("{}      ", 0);
    std::memcpy(bytes.data(), &length, 8);
    return refusal_of(bytes);
  };
  for (const uint64_t length : {uint64_t{100'000'001}, ~uint64_t{0}, uint64_t{1} << 63})
    EXPECT_THAT(with_length(length), HasSubstr(": not a safetensors file")) << length;
  EXPECT_THAT(with_length(9), HasSubstr(": cut off: its header has 9 bytes, 8 follow"));
}

TEST_F(SafeTensorsFile, APicklesFirstBytesSayWhatToDo) {
  const std::string rest(100, '\b');
  for (const std::string start : {"PK\x03\x04", "\x80\x02\x8a\n"})
    EXPECT_THAT(refusal_of(start + rest), HasSubstr("a PyTorch pickle; save it as safetensors"));
  // A header of 128 bytes begins with 0x80 as well.
  EXPECT_EQ(refusal_of(framed("{}" + std::string(126, ' '), 0)), "");
}

TEST_F(SafeTensorsFile, RefusesAPipeAFolderAndAHugeSparseFile) {
  path = folder;
  EXPECT_THAT(refusal(), HasSubstr("not a regular file"));
  path = folder / "sparse";
  put("x");
  std::filesystem::resize_file(path, int64_t{1} << 40);
  EXPECT_NE(refusal(), "");
  path = folder / "none";
  EXPECT_THAT(refusal(), HasSubstr("No such file"));
}

TEST_F(SafeTensorsFile, ClaimsBeyondTheFileAllocateNothing) {
  put(framed(R"({"w":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})",
             8));
  reset_peak(Device::cpu);
  const int64_t before = allocator_stats(Device::cpu).peak_allocated;
  EXPECT_THAT(refusal(), HasSubstr("have 1099511627776 bytes, the file has 8"));
  EXPECT_EQ(allocator_stats(Device::cpu).peak_allocated, before);
}

TEST_F(SafeTensorsFile, WriteRefusesNamesThatCollideAndTensorsThatAreNotContiguous) {
  EXPECT_THROW(write_safetensors(path, {{"w", full({1}, 1)}, {"w", full({1}, 1)}}), Error);
  const Tensor strided = Tensor({2, 3, 4, 5}, DType::f32, Device::cpu, kCHWN);
  EXPECT_THROW(write_safetensors(path, {{"w", strided}}), Error);
  write_safetensors(path, snapshot({{"w", strided}}));
}

// The tensors are never written, so their pages take no memory.
TEST_F(SafeTensorsFile, WriteRefusesWhatItCouldNotReadAgain) {
  const Tensor big({int64_t{1} << 30}, DType::u8);
  NamedTensors tensors;
  for (int i = 0; i < 64; ++i) tensors.push_back({cat("w", i), big});
  EXPECT_THAT(bellows::refusal([&] { write_safetensors(path, tensors); }), HasSubstr("at most "));
  EXPECT_FALSE(std::filesystem::exists(path));
}
