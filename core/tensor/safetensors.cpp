#include "core/tensor/safetensors.h"
#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include "core/base/crc32c.h"
#include "core/base/json.h"
#include "core/base/trace.h"
#include "core/device/threads.h"
#include "core/tensor/copy.h"

namespace bellows {

// ---- the JSON header

namespace {

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape = {};
  int64_t begin = 0, end = 0;  // bytes, from the end of the header
  std::string foreign = {};    // name of a dtype that is only skipped; `dtype` is one as wide
};
struct TensorsHeader {
  std::vector<TensorEntry> entries;  // in file order
  Metadata metadata;
};

constexpr const char* kTags[] = {"F64", "F32", "BF16", "F16", "I64", "I32", "U8"};
// Dtypes that this program only skips.
constexpr const char* kOthers[] = {"BOOL", "I8", "I16", "U16", "U32", "U64", "F8_E4M3", "F8_E5M2"};
const char* tag_of(DType dtype) { return kTags[static_cast<int>(dtype)]; }

// Returns the header without padding, and without spaces outside strings.
std::string format_header(const TensorsHeader& header) {
  Json text = {{"__metadata__", header.metadata}};
  for (const TensorEntry& e : header.entries)
    text[e.name] = {{"dtype", tag_of(e.dtype)},
                    {"shape", std::vector(e.shape.begin(), e.shape.end())},
                    {"data_offsets", {e.begin, e.end}}};
  return text.dump();
}

// Files have thousands of tensors at most, and ours have one checksum per tensor in the metadata.
constexpr size_t kMostTensors = 1 << 17, kMostMetadata = 2 * kMostTensors;

bool has_counts(const Json& list, size_t least, size_t most) {
  const auto is_count = [](const Json& n) {
    return n.is_number_unsigned() && n.get<uint64_t>() <= INT64_MAX;
  };
  return list.is_array() && list.size() >= least && list.size() <= most &&
         std::ranges::all_of(list, is_count);
}

struct HeaderReader {
  const std::string& where;
  std::string item = "";  // key of the header that is read; "" before the first one

  template <class... What> [[noreturn]] void refuse(const What&... what) const {
    fail(Exit::checkpoint, where, ": header: ", item.empty() ? "" : cat("'", printable(item), "' "),
         what...);
  }
  // Returns the keys and values of an object. Refuses keys that appear twice, which Json keeps.
  const Json::object_t& items_of(const Json& object, size_t most) const {
    if (!object.is_object()) refuse("is not an object");
    const auto& items = object.get_ref<const Json::object_t&>();
    if (items.size() > most) refuse("has more than ", most, " keys");
    std::set<std::string_view> keys;
    for (const auto& [key, value] : items)
      if (!keys.insert(key).second) refuse("'", printable(key), "' appears twice");
    return items;
  }
  TensorsHeader read(std::string_view text) {
    std::string why = "no JSON object";
    const Json all = text.starts_with('{') ? parse_json(text, &why) : Json();
    if (!all.is_object()) refuse(why);
    TensorsHeader header;
    for (const auto& [key, value] : items_of(all, kMostTensors + 1)) {
      item = key;
      if (key != "__metadata__") {
        header.entries.push_back(entry_of(value));
        continue;
      }
      for (const auto& [name, word] : items_of(value, kMostMetadata)) {
        if (!word.is_string()) refuse("has no text for '", printable(name), "'");
        header.metadata[name] = word.get<std::string>();
      }
    }
    return header;
  }
  TensorEntry entry_of(const Json& fields) const {
    TensorEntry entry{.name = item};
    const Json::object_t& items = items_of(fields, 3);
    if (items.size() < 3) refuse("needs dtype, shape and data_offsets");
    for (const auto& [field, value] : items) {
      if (field == "dtype" && value.is_string()) {
        set_dtype(entry, value.get<std::string>());
      } else if (field == "shape" && has_counts(value, 0, kMaxRank)) {
        for (const Json& side : value) entry.shape.push_back(side.get<int64_t>());
      } else if (field == "data_offsets" && has_counts(value, 2, 2)) {
        entry.begin = value[0].get<int64_t>();
        entry.end = value[1].get<int64_t>();
      } else {
        refuse("has no valid '", printable(field), "'; a tensor has a dtype, a shape of up to ",
               kMaxRank, " axes and two data_offsets");
      }
    }
    return entry;
  }
  void set_dtype(TensorEntry& entry, const std::string& tag) const {
    const auto found = std::ranges::find(kTags, tag);
    if (found != std::end(kTags)) return void(entry.dtype = static_cast<DType>(found - kTags));
    if (std::ranges::find(kOthers, tag) == std::end(kOthers))
      refuse("has dtype ", printable(tag), ", which is not known");
    entry.foreign = tag;
    entry.dtype = tag.ends_with("16") ? DType::f16 : DType::u8;
    if (tag == "U32") entry.dtype = DType::i32;
    if (tag == "U64") entry.dtype = DType::i64;
  }
};

// Returns the tensor's size in bytes, or -1 on overflow. Zeros count as ones in the check, because
// strides are products too.
int64_t bytes_of(const TensorEntry& entry) {
  auto bytes = static_cast<int64_t>(size_of(entry.dtype));
  for (const int64_t dim : entry.shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes)) return -1;
  return entry.shape.numel() == 0 ? 0 : bytes;
}

// Parses a header. Throws Error, exit 4, with `where` before the message, if the text is not valid
// JSON of this form, or if the entries do not cover 0..data_bytes exactly: gaps, overlaps, shapes
// of another size.
TensorsHeader parse_header(std::string_view text, int64_t data_bytes, const std::string& where) {
  TensorsHeader header = HeaderReader{where}.read(text);
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

}  // namespace

// ---- writing

// Seal: checksums in the metadata that cover every bit of the file. "crc32c.<tensor>" is the
// checksum of the tensor's bytes, "crc32c" that of the header with zeros in its own place. A
// flipped bit that hides one of these keys leaves the others, and each of them requires all.
static constexpr const char* kSeal = "crc32c";
static constexpr const char* kVersionKey = "bellows.format";
static constexpr const char* kVersion = "1";
static constexpr int64_t kMaxHeader = 100'000'000;  // limit of the format itself
static constexpr int64_t kMaxFile = int64_t{64} << 30;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

static std::string seal_of(const std::string& tensor) { return cat(kSeal, ".", tensor); }
static std::string hex(uint32_t crc) { return fmt::format("{:08x}", crc); }
static Bytes data_of(const Tensor& t) { return {t.bytes(), t.nbytes()}; }

// Returns the position of the header's own checksum, whose key is never the first. Inside a JSON
// string a quote follows a backslash, so these characters occur nowhere else.
static size_t seal_at(std::string_view header) {
  constexpr std::string_view key = ",\"crc32c\":\"";
  const size_t at = header.find(key);
  return at == header.npos ? at : at + key.size();
}

NamedTensors snapshot(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, t] : tensors)
    copies.push_back({name, t.device() == Device::cpu ? clone(t) : to(Device::cpu, t.detach())});
  return copies;
}

static void write_or_retry(const Path& path, const std::vector<Bytes>& pieces, int64_t retries) {
  for (;; --retries, trace::count<"ckpt.retries">()) {
    try {
      return write_file(path, pieces);
    } catch (const Error&) {
      if (retries <= 0) throw;
    }
  }
}

void write_safetensors(const Path& path, const NamedTensors& tensors, const Metadata& metadata,
                       int64_t retries) {
  size_t bytes = 0;
  for (const NamedTensor& t : tensors) bytes += t.tensor.nbytes();
  CHECK(bytes + 8 + kMaxHeader <= kMaxFile, "write_safetensors: ", printable(path.native()), ": ",
        bytes, " bytes of tensors; with its header a file has at most ", kMaxFile);
  NamedTensors ordered = tensors;
  std::ranges::stable_sort(ordered, std::ranges::greater(),
                           [](const NamedTensor& t) { return size_of(t.tensor.dtype()); });
  TensorsHeader header{{}, metadata};
  std::vector<Bytes> pieces(2);
  for (int64_t at = 0; const auto& [name, t] : ordered) {
    CHECK(t.device() == Device::cpu && t.is_contiguous(), "write_safetensors: '", name, "' is on ",
          t.device(), " with strides ", t.strides(), "; write its snapshot()");
    const Bytes data = data_of(t);
    CHECK(header.metadata.emplace(seal_of(name), hex(crc32c(data))).second,
          "write_safetensors: two tensors are named '", name, "'");
    header.entries.push_back({name, t.dtype(), t.shape(), at, at + std::ssize(data)});
    at += std::ssize(data);
    pieces.push_back(data);
  }
  header.metadata[kVersionKey] = kVersion;
  header.metadata[kSeal] = hex(0);
  std::string text = format_header(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  text.replace(seal_at(text), 8, hex(crc32c(bytes_of(text))));
  const uint64_t length = text.size();
  pieces[0] = std::as_bytes(std::span(&length, 1));
  pieces[1] = bytes_of(text);
  write_or_retry(path, pieces, retries);
}

std::future<void> write_safetensors_async(const Path& path, NamedTensors snapshot,
                                          Metadata metadata, int64_t retries) {
  auto saving = std::async(std::launch::async,
                           [=, tensors = std::move(snapshot), metadata = std::move(metadata)] {
                             name_thread("checkpoint");
                             write_safetensors(path, tensors, metadata, retries);
                           });
  trace::count<"ckpt.async_saves">();
  return saving;
}

// ---- reading

static bool is_sealed(const Metadata& metadata) {
  return std::ranges::any_of(metadata, [](const auto& item) {
    return item.first == kVersionKey || item.first.starts_with(kSeal);
  });
}

// Removes a checksum from the metadata and verifies it.
static void check_seal(Metadata& metadata, const std::string& key, uint32_t crc,
                       const std::string& what) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) fail(Exit::checkpoint, what, " has lost its checksum");
  if (found->second != hex(crc))
    fail(Exit::checkpoint, what, " is damaged: checksum ", hex(crc), ", it was written with ",
         printable(found->second));
  metadata.erase(found);
}

static void check_header_seal(Metadata& metadata, std::string text, const std::string& where) {
  if (const size_t at = seal_at(text); at != text.npos) text.replace(at, 8, hex(0));
  check_seal(metadata, kSeal, crc32c(bytes_of(text)), where + ": header");
  const auto version = metadata.extract(kVersionKey);
  if (version.empty() || version.mapped() != kVersion)
    fail(Exit::checkpoint, where, ": written in format version ",
         version.empty() ? "unknown" : printable(version.mapped()), ", this program reads ",
         kVersion);
}

static std::string read_header(const InputFile& file, const std::string& where) {
  uint64_t length = 0;
  if (file.size() < 8 || file.size() > kMaxFile)
    fail(Exit::checkpoint, where, ": not a safetensors file, it has ", file.size(), " bytes");
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const auto left = static_cast<uint64_t>(file.size() - 8);
  // First bytes of a zip archive or of an older torch.save pickle. Read as a header's length, they
  // are larger than any file.
  const bool zipped = (length & 0xffffffff) == 0x04034b50, pickled = (length & 0xff) == 0x80;
  if (length > kMaxHeader && (zipped || pickled))
    fail(Exit::checkpoint, where, ": a PyTorch pickle; save it as safetensors, with  ",
         "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")");
  if (length > kMaxHeader) fail(Exit::checkpoint, where, ": not a safetensors file");
  if (length > left)
    fail(Exit::checkpoint, where, ": cut off: its header has ", length, " bytes, ", left,
         " follow");
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  return text;
}

SafeTensors read_safetensors(const Path& path) {
  const std::string where = printable(path.native());
  const InputFile file(path, Exit::checkpoint);
  const std::string text = read_header(file, where);
  const int64_t data_at = 8 + std::ssize(text);
  TensorsHeader header = parse_header(text, file.size() - data_at, where);
  const bool sealed = is_sealed(header.metadata);
  if (sealed) check_header_seal(header.metadata, text, where);
  SafeTensors result;
  for (const TensorEntry& e : header.entries) {
    const bool own = e.foreign.empty();
    const Tensor t = own ? Tensor(e.shape, e.dtype) : Tensor({1, e.end - e.begin}, DType::u8);
    if (!own) result.foreign[e.name] = e.foreign;
    file.read(data_at + e.begin, {t.bytes(), t.nbytes()});
    if (sealed)
      check_seal(header.metadata, seal_of(e.name), crc32c(data_of(t)),
                 cat(where, ": tensor '", printable(e.name), "'"));
    result.tensors.push_back({e.name, t});
  }
  result.metadata = std::move(header.metadata);
  return result;
}

}  // namespace bellows
