#include "core/tensor/safetensors.h"
#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include "core/base/crc32c.h"
#include "core/base/trace.h"
#include "core/device/threads.h"
#include "core/tensor/copy.h"
#include "core/tensor/safetensors_header.h"

namespace bellows {

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

// Returns the position of the header's own checksum. Inside a JSON string a quote follows a
// backslash, so these characters occur nowhere else. The version's key precedes it, hence the
// comma.
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

NamedTensors on_host(const NamedTensors& tensors) {
  NamedTensors ready;
  for (const auto& [name, t] : tensors)
    ready.push_back(
        {name, contiguous(t.device() == Device::cpu ? t : to(Device::cpu, t.detach()))});
  return ready;
}

static void write_file_or_retry(const Path& path, const std::vector<Bytes>& pieces,
                                int64_t retries) {
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
  write_file_or_retry(path, pieces, retries);
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

// Removes a checksum from the metadata and compares it.
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
    const Tensor t(e.shape, e.dtype);
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
