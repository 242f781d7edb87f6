// CRC-32C (Castagnoli): the checksum of checkpoints, shards, disk cache entries, TensorBoard event
// files, and of the read-back check in write_file().
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace bellows {

// Returns the checksum of `bytes`, or continues the checksum `crc` with them. About 8 GB/s.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace bellows
