// CRC-32C (Castagnoli): the checksum of checkpoints, of shards, of the disk cache, of
// TensorBoard's event files, and of what write_file() writes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace bellows {

// Of `bytes`, or of what `crc` already covers followed by them. About 8 GB/s.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace bellows
