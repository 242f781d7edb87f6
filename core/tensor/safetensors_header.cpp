#include "core/tensor/safetensors_header.h"
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace bellows {

static constexpr const char* kTags[] = {"F64", "F32", "BF16", "F16", "I64", "I32", "U8"};
static const char* tag_of(DType dtype) { return kTags[static_cast<int>(dtype)]; }

static std::string as_json(const std::string& text) { return nlohmann::json(text).dump(); }

std::string format_header(const TensorsHeader& header) {
  std::string text = "{\"__metadata__\":{";
  for (const char* comma = ""; const auto& [key, value] : header.metadata) {
    text += fmt::format("{}{}:{}", comma, as_json(key), as_json(value));
    comma = ",";
  }
  text += "}";
  for (const TensorEntry& e : header.entries)
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        as_json(e.name), tag_of(e.dtype), fmt::join(e.shape, ","), e.begin, e.end);
  return text + "}";
}

namespace {

// A parsed entry takes twenty times its size in the header. Files have thousands of tensors at
// most, and ours have one checksum per tensor in the metadata.
constexpr size_t kMostTensors = 1 << 17, kMostMetadata = 2 * kMostTensors;

// Uses the parser's events, not a tree: a duplicate key is detected, and nothing is built that the
// format does not have, no matter how deep or long the text is.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& where) : where_(where) {}
  TensorsHeader header;

  bool start_object(size_t) override {
    if (++depth_ > 2 || in_list_) refuse("objects are nested too deep");
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata()) finish_entry();
    return true;
  }
  bool key(std::string& key) override {
    if (depth_ == 1) {
      item_ = key;
      fields_.clear();
      if (!items_.insert(key).second) refuse("appears twice");
      if (header.entries.size() == kMostTensors)
        refuse(fmt::format("is one of more than {}", kMostTensors));
      if (!in_metadata()) header.entries.push_back({.name = key});
    } else {
      field_ = key;
      if (!fields_.insert(key).second) refuse("'" + key + "' appears twice");
      if (header.metadata.size() == kMostMetadata)
        refuse(fmt::format("has more than {} keys", kMostMetadata));
    }
    return true;
  }
  bool string(std::string& value) override {
    if (depth_ != 2 || in_list_) refuse("is not an object");
    if (in_metadata()) {
      header.metadata[field_] = value;
    } else {
      if (field_ != "dtype") refuse("'" + field_ + "' is text");
      header.entries.back().dtype = dtype_from(value);
    }
    return true;
  }
  bool start_array(size_t) override {
    const bool expected = depth_ == 2 && !in_list_ && !in_metadata() &&
                          (field_ == "shape" || field_ == "data_offsets");
    if (!expected) refuse("has an unexpected list");
    in_list_ = true;
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    if (field_ == "data_offsets" && offsets_ != 2) refuse("needs two data_offsets");
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_list_) refuse("has an unexpected number");
    if (value > INT64_MAX) refuse("has a number beyond 2^63");
    const auto number = static_cast<int64_t>(value);
    TensorEntry& entry = header.entries.back();
    if (field_ == "shape") {
      if (entry.shape.rank() == kMaxRank) refuse(fmt::format("has more than {} axes", kMaxRank));
      entry.shape.push_back(number);
    } else {
      if (offsets_ == 2) refuse("needs two data_offsets");
      (offsets_++ == 0 ? entry.begin : entry.end) = number;
    }
    return true;
  }
  bool null() override { refuse("holds a null"); }
  bool boolean(bool) override { refuse("holds a boolean"); }
  bool number_integer(int64_t) override { refuse("holds a negative number"); }
  bool number_float(double, const std::string&) override { refuse("holds a fraction"); }
  bool binary(nlohmann::json::binary_t&) override { refuse("holds binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(Exit::checkpoint, where_, ": header: no valid JSON at byte ", position);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(Exit::checkpoint, where_, ": header: '", printable(item_), "' ", what);
  }
  bool in_metadata() const { return item_ == "__metadata__"; }
  DType dtype_from(const std::string& tag) const {
    const auto found = std::ranges::find(kTags, tag);
    if (found == std::end(kTags)) refuse("has dtype " + printable(tag) + ", which is not known");
    return static_cast<DType>(found - kTags);
  }
  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(field)) refuse(cat("has no ", field));
    if (fields_.size() > 3) refuse("has more than dtype, shape and data_offsets");
    offsets_ = 0;
  }

  const std::string& where_;
  int depth_ = 0, offsets_ = 0;
  bool in_list_ = false;
  std::string item_, field_;
  std::set<std::string> items_, fields_;
};

// Returns the tensor's size in bytes, or -1 on overflow. Zeros count as ones in the check, because
// strides are products too.
int64_t bytes_of(const TensorEntry& entry) {
  auto bytes = static_cast<int64_t>(size_of(entry.dtype));
  for (const int64_t dim : entry.shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes)) return -1;
  return entry.shape.numel() == 0 ? 0 : bytes;
}

}  // namespace

TensorsHeader parse_header(std::string_view text, int64_t data_bytes, const std::string& where) {
  if (text.empty() || text.front() != '{')
    fail(Exit::checkpoint, where, ": header: no valid JSON at byte 1");
  HeaderReader reader(where);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  TensorsHeader header = std::move(reader.header);
  std::ranges::sort(header.entries, {},
                    [](const TensorEntry& e) { return std::pair(e.begin, e.end); });
  int64_t end = 0;
  for (const TensorEntry& e : header.entries) {
    const std::string name = printable(e.name);
    if (e.begin != end)
      fail(Exit::checkpoint, where, ": tensor '", name, "' begins at byte ", e.begin,
           " of the data, the one before it ends at ", end);
    if (e.end < e.begin || bytes_of(e) != e.end - e.begin)
      fail(Exit::checkpoint, where, ": tensor '", name, "', ", e.dtype, " ", e.shape,
           ", does not fill bytes ", e.begin, " to ", e.end);
    end = e.end;
  }
  if (end != data_bytes)
    fail(Exit::checkpoint, where, ": its tensors have ", end, " bytes, the file has ", data_bytes);
  return header;
}

}  // namespace bellows
