// IDX, the format of MNIST: 0 0 8 rank, then `rank` big-endian 32-bit sizes, then the bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>
#include "core/tensor/shape.h"

namespace bellows {

// An IDX file of unsigned bytes, raw or gzipped (detected by its content). Opening reads the header
// alone, so that a caller can compare it with what it expects before anything is inflated. Throws
// Error(Exit::data) with path and reason.
class IdxFile {
 public:
  IdxFile(const std::string& path, int rank);
  // The same for a file's content; `path` is for messages.
  IdxFile(std::vector<uint8_t> content, const std::string& path, int rank);

  // Shape that the header claims. Only read() finds out whether the file contains that much.
  const Shape& shape() const { return shape_; }
  // Returns the shape().numel() bytes after the header. Inflates them, the header again and at most
  // one byte more, to check that the file ends there. Counter, for gzipped files:
  // data.inflated_bytes.
  std::vector<uint8_t> read();

 private:
  std::string path_;
  std::vector<uint8_t> content_;  // bytes of the file, compressed or not
  Shape shape_;
};

}  // namespace bellows
