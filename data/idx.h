// IDX, the format of MNIST: 0 0 8 rank, then `rank` big-endian 32-bit sizes, then the bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>
#include "core/shape.h"

namespace bellows {

struct IdxArray {
  Shape shape;
  std::vector<uint8_t> bytes;  // shape.numel() of them
};

// Reads a file, raw or gzipped (told by its content), of unsigned bytes with that rank. The header
// is compared with the size of the file before anything of the size that it claims is allocated.
// Throws Error(Exit::data) with path and reason.
IdxArray read_idx(const std::string& path, int rank);
// The same of a file's content; `path` is for messages.
IdxArray parse_idx(std::vector<uint8_t> file, const std::string& path, int rank);

}  // namespace bellows
