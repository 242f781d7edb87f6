// IDX, the format of MNIST: 0 0 8 rank, then `rank` big-endian 32-bit sizes, then the bytes.
#pragma once
#include <string>
#include <vector>
#include "core/tensor/shape.h"

namespace bellows {

struct IdxContent {
  Shape shape;
  std::vector<uint8_t> bytes;  // shape.numel()
};
// Reads an IDX file of unsigned bytes, raw or gzipped (detected by its content, as gunzip reads
// it). Takes at most one byte more than the header claims, to check that the file ends there.
// Refuses a claim of more than 1032 times the file's size, which no gzip stream reaches. Throws
// Error(Exit::data) with path and reason. Counter, for gzipped files: data.inflated_bytes.
IdxContent read_idx_file(const std::string& path, int rank);

}  // namespace bellows
