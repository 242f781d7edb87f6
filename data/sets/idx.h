// IDX, the format of MNIST: 0 0 8 rank, then `rank` big-endian 32-bit sizes, then the bytes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include "core/tensor/shape.h"

namespace bellows {

class IdxSource;

// An IDX file of unsigned bytes, raw or gzipped (detected by its content). Opening reads the header
// alone, so that a caller can compare it with what it expects before anything is inflated. Throws
// Error(Exit::data) with path and reason.
class IdxFile {
 public:
  IdxFile(const std::string& path, int rank);
  // The same for a file's content; `path` is for messages.
  IdxFile(std::vector<uint8_t> content, const std::string& path, int rank);
  ~IdxFile();

  // As the header claims. The file may be large enough for it; whether it is, read() finds out.
  const Shape& shape() const { return shape_; }
  // The shape().numel() bytes behind the header; call once. Inflates one byte more at most, to see
  // that the file ends there. Counted as data.inflated_bytes where the file is gzipped.
  std::vector<uint8_t> read();

 private:
  std::string path_;
  std::vector<uint8_t> content_;  // as it lies on disk
  std::unique_ptr<IdxSource> source_;
  Shape shape_;
};

}  // namespace bellows
