// IDX, the format of MNIST: 0 0 8 rank, then `rank` big-endian 32-bit sizes, then the bytes.
#pragma once
#include <zlib.h>
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>
#include "core/base/trace.h"
#include "core/tensor/shape.h"
#include "data/images/file.h"

namespace bellows {

// An IDX file of unsigned bytes, raw or gzipped (detected by its content). Opening reads the header
// alone, so that a caller can compare it with what it expects before anything is inflated. Throws
// Error(Exit::data) with path and reason.
class IdxFile {
 public:
  IdxFile(const std::string& path, int rank) : IdxFile(read_bytes(path), path, rank) {}
  // The same for a file's content; `path` is for messages.
  IdxFile(std::vector<uint8_t> content, const std::string& path, int rank)
      : path_(path), content_(std::move(content)), shape_(read_header(rank)) {}

  // Shape that the header claims. Only read() finds out whether the file contains that much.
  const Shape& shape() const { return shape_; }
  // Returns the shape().numel() bytes after the header. Inflates them, the header again and at most
  // one byte more, to check that the file ends there. Counter, for gzipped files:
  // data.inflated_bytes.
  std::vector<uint8_t> read() {
    const size_t header = header_size(shape_.rank()), size = shape_.numel();
    Content bytes = first_bytes(header + size + 1);
    if (bytes.size() < header + size)
      fail(Exit::data, path_, ": truncated: ", bytes.size() - header, " of the ", size,
           " bytes that its header ", shape_, " claims");
    if (bytes.size() > header + size)
      fail(Exit::data, path_, ": goes on after its ", size, " bytes");
    bytes.erase(bytes.begin(), bytes.begin() + ptrdiff_t(header));
    return bytes;
  }

 private:
  using Content = std::vector<uint8_t>;

  static bool is_gzip(std::span<const uint8_t> file) {
    return file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b;
  }

  // Returns the first `size` bytes of the content, inflated; all if it has fewer.
  Content first_bytes(size_t size) {
    if (!is_gzip(content_))
      return {content_.begin(), content_.begin() + ptrdiff_t(std::min(size, content_.size()))};
    z_stream stream{};
    stream.next_in = content_.data();
    stream.avail_in = static_cast<uInt>(content_.size());
    INVARIANT(inflateInit2(&stream, 15 + 16) == Z_OK, "zlib does not start");
    const std::unique_ptr<z_stream, decltype(&inflateEnd)> end(&stream, &inflateEnd);
    Content bytes;
    int status = Z_OK;
    // Step by step, so that memory grows only with what the file really contains.
    while (bytes.size() < size && status != Z_STREAM_END) {
      const size_t have = bytes.size();
      bytes.resize(std::min(size, have + (1 << 20)));
      stream.next_out = bytes.data() + have;
      stream.avail_out = static_cast<uInt>(bytes.size() - have);
      status = inflate(&stream, Z_NO_FLUSH);
      if (status == Z_BUF_ERROR) fail(Exit::data, path_, ": the gzip stream is truncated");
      if (status != Z_OK && status != Z_STREAM_END)
        fail(Exit::data, path_,
             ": corrupt gzip stream: ", stream.msg ? stream.msg : zError(status));
      bytes.resize(bytes.size() - stream.avail_out);
      if (status != Z_STREAM_END || stream.avail_in == 0) continue;
      // A gzip file may consist of several members, whose contents follow each other (RFC 1952),
      // and zeros may fill its last block.
      const std::span<const uint8_t> rest(stream.next_in, stream.avail_in);
      if (std::ranges::all_of(rest, [](uint8_t byte) { return byte == 0; })) break;
      if (!is_gzip(rest))
        fail(Exit::data, path_, ": ", stream.avail_in, " bytes after the gzip stream");
      status = inflateReset(&stream);
    }
    trace::count<"data.inflated_bytes">(static_cast<int64_t>(bytes.size()));
    return bytes;
  }

  static size_t header_size(int64_t rank) { return 4 + 4 * rank; }

  Shape read_header(int rank) {
    constexpr size_t kMaxInflation = 1032;  // deflate expands a byte to at most this many
    const size_t most = is_gzip(content_) ? content_.size() * kMaxInflation : content_.size();
    const Content header = first_bytes(header_size(rank));
    if (header.size() < header_size(rank))
      fail(Exit::data, path_, ": shorter than an IDX header of ", header_size(rank), " bytes");
    if (header[0] || header[1] || header[2] != 8 || header[3] != rank)
      fail(Exit::data, path_, ": starts with bytes ", int(header[0]), " ", int(header[1]), " ",
           int(header[2]), " ", int(header[3]), ", not 0 0 8 ", rank, " (unsigned bytes, ", rank,
           " axes)");
    Shape shape;
    size_t claimed = 1;
    for (int axis = 0; axis < rank; ++axis) {
      const uint8_t* const b = header.data() + 4 + 4 * axis;
      const size_t size = size_t(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3];
      if (size == 0) fail(Exit::data, path_, ": axis ", axis, " has size 0");
      shape.push_back(static_cast<int64_t>(size));
      // Divides, because the product may not fit 64 bits.
      if (size > most / claimed)
        fail(Exit::data, path_, ": the header claims ", shape, rank > shape.rank() ? " ..." : "",
             ", more than this file can hold: truncated, or not an IDX file");
      claimed *= size;
    }
    return shape;
  }

  std::string path_;
  std::vector<uint8_t> content_;  // bytes of the file, compressed or not
  Shape shape_;
};

}  // namespace bellows
