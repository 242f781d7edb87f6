#include "data/sets/idx.h"
#include <zlib.h>
#include <memory>
#include "core/base/file.h"
#include "core/base/trace.h"

namespace bellows {

// Returns the next `size` bytes, fewer at the end of the file.
static std::vector<uint8_t> next_bytes(gzFile file, size_t size) {
  std::vector<uint8_t> bytes(size);
  bytes.resize(gzfread(bytes.data(), 1, size, file));
  int status = Z_OK;
  const char* const why = gzerror(file, &status);  // begins with the path
  if (status == Z_ERRNO) fail(Exit::storage, why);
  if (status != Z_OK && status != Z_STREAM_END)
    fail(Exit::data, why, "; the gzip stream is damaged or truncated");
  if (!gzdirect(file)) trace::count<"data.inflated_bytes">(std::ssize(bytes));
  return bytes;
}

// Takes the header and returns its sizes.
static Shape read_idx_header(gzFile file, const std::string& path, int rank) {
  constexpr int64_t kMost = int64_t{1} << 32;  // bytes of a data set
  const std::vector<uint8_t> header = next_bytes(file, 4 + 4 * rank);
  if (std::ssize(header) < 4 + 4 * rank)
    fail(Exit::data, path, ": shorter than an IDX header of ", 4 + 4 * rank, " bytes");
  if (header[0] || header[1] || header[2] != 8 || header[3] != rank)
    fail(Exit::data, path, ": starts with bytes ", int(header[0]), " ", int(header[1]), " ",
         int(header[2]), " ", int(header[3]), ", not 0 0 8 ", rank, " (unsigned bytes, ", rank,
         " axes)");
  Shape shape;
  int64_t claimed = 1;
  for (auto b = header.begin() + 4; b != header.end(); b += 4) {
    const int64_t size = int64_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3];
    if (size < 1 || size > kMost / claimed)  // divides, because the product may not fit 64 bits
      fail(Exit::data, path, ": axis ", shape.rank(), " has size ", size,
           ", and a data set has from 1 to ", kMost, " bytes; is it an IDX file?");
    shape.push_back(size);
    claimed *= size;
  }
  return shape;
}

IdxContent read_idx_file(const std::string& path, int rank) {
  const InputFile regular(path, Exit::data);  // refuses pipes and devices
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) fail(Exit::data, path, ": cannot be opened");
  const Shape shape = read_idx_header(file.get(), path, rank);
  const size_t size = shape.numel();
  constexpr size_t kMostRatio = 1032;  // largest ratio of inflated to compressed size
  if (size / kMostRatio > static_cast<size_t>(regular.size()))
    fail(Exit::data, path, ": truncated: ", regular.size(), " bytes cannot hold the ", size,
         " bytes that its header ", shape, " claims");
  std::vector<uint8_t> bytes = next_bytes(file.get(), size + 1);
  if (bytes.size() < size)
    fail(Exit::data, path, ": truncated: ", bytes.size(), " of the ", size,
         " bytes that its header ", shape, " claims");
  if (bytes.size() > size) fail(Exit::data, path, ": goes on after its ", size, " bytes");
  return {shape, std::move(bytes)};
}

}  // namespace bellows
