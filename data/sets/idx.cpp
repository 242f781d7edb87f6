#include "data/sets/idx.h"
#include <zlib.h>
#include <span>
#include "core/base/trace.h"
#include "data/images/file.h"

namespace bellows {

namespace {
using Content = std::vector<uint8_t>;
constexpr size_t kMaxInflation = 1032;  // deflate expands a byte to at most this many
constexpr size_t kStep = 1 << 20;
}  // namespace

// Sequential content of a file, compressed or not.
class IdxSource {
 public:
  IdxSource(const std::string& path, Content& file)
      : path_(path),
        size_(file.size()),
        zipped_(file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b) {
    stream_.next_in = file.data();
    stream_.avail_in = static_cast<uInt>(file.size());
    if (zipped_) INVARIANT(inflateInit2(&stream_, 15 + 16) == Z_OK, "zlib does not start");
  }
  ~IdxSource() { inflateEnd(&stream_); }
  IdxSource(IdxSource&&) = delete;

  // Returns the number of bytes; fewer than `into` has room for only at the end.
  size_t read(std::span<uint8_t> into) {
    if (zipped_) return inflate_some(into);
    const size_t n = std::min<size_t>(into.size(), stream_.avail_in);
    std::copy_n(stream_.next_in, n, into.begin());
    stream_.next_in += n;
    stream_.avail_in -= static_cast<uInt>(n);
    return n;
  }
  size_t most() const { return zipped_ ? size_ * kMaxInflation : size_; }  // bytes of the content

 private:
  size_t inflate_some(std::span<uint8_t> into) {
    stream_.next_out = into.data();
    stream_.avail_out = static_cast<uInt>(into.size());
    while (stream_.avail_out && !ended_) {
      const int status = inflate(&stream_, Z_NO_FLUSH);
      ended_ = status == Z_STREAM_END;
      if (status == Z_BUF_ERROR) fail(Exit::data, path_, ": the gzip stream is truncated");
      if (status != Z_OK && !ended_)
        fail(Exit::data, path_,
             ": corrupt gzip stream: ", stream_.msg ? stream_.msg : zError(status));
    }
    if (ended_ && stream_.avail_in)
      fail(Exit::data, path_, ": ", stream_.avail_in, " bytes after the gzip stream");
    const size_t made = into.size() - stream_.avail_out;
    trace::count<"data.inflated_bytes">(static_cast<int64_t>(made));
    return made;
  }

  const std::string& path_;
  const size_t size_;
  const bool zipped_;
  z_stream stream_{};  // of a raw file: what is left
  bool ended_ = false;
};

static Shape read_header(const std::string& path, IdxSource& source, int rank) {
  Content header(4 + 4 * rank);
  if (source.read(header) < header.size())
    fail(Exit::data, path, ": shorter than an IDX header of ", header.size(), " bytes");
  if (header[0] || header[1] || header[2] != 8 || header[3] != rank)
    fail(Exit::data, path, ": starts with bytes ", int(header[0]), " ", int(header[1]), " ",
         int(header[2]), " ", int(header[3]), ", not 0 0 8 ", rank, " (unsigned bytes, ", rank,
         " axes)");
  Shape shape;
  size_t claimed = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const uint8_t* const b = header.data() + 4 + 4 * axis;
    const size_t size = size_t(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3];
    if (size == 0) fail(Exit::data, path, ": axis ", axis, " has size 0");
    shape.push_back(static_cast<int64_t>(size));
    // Divides, because the product may not fit 64 bits.
    if (size > source.most() / claimed)
      fail(Exit::data, path, ": the header claims ", shape, rank > shape.rank() ? " ..." : "",
           ", more than this file can hold: truncated, or not an IDX file");
    claimed *= size;
  }
  return shape;
}

IdxFile::IdxFile(const std::string& path, int rank) : IdxFile(read_bytes(path), path, rank) {}

IdxFile::IdxFile(Content content, const std::string& path, int rank)
    : path_(path),
      content_(std::move(content)),
      source_(std::make_unique<IdxSource>(path_, content_)),
      shape_(read_header(path_, *source_, rank)) {}

IdxFile::~IdxFile() = default;

std::vector<uint8_t> IdxFile::read() {
  const size_t size = shape_.numel();
  Content bytes;
  // Step by step, so that memory grows only with what the file really contains.
  while (bytes.size() < size) {
    const size_t have = bytes.size();
    bytes.resize(std::min(size, have + kStep));
    const size_t got = have + source_->read(std::span(bytes).subspan(have));
    if (got < bytes.size())
      fail(Exit::data, path_, ": truncated: ", got, " of the ", size, " bytes that its header ",
           shape_, " claims");
  }
  uint8_t one_more;
  if (source_->read({&one_more, 1}))
    fail(Exit::data, path_, ": goes on after its ", size, " bytes");
  return bytes;
}

}  // namespace bellows
