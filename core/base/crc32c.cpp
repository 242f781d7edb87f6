#include "core/base/crc32c.h"
#include <nmmintrin.h>
#include <cstring>

namespace bellows {

// The instruction is part of the x86-64-v3 baseline; tables would be eight times slower.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  uint64_t state = ~crc;
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t rest = static_cast<uint32_t>(state);
  for (; at != end; ++at) rest = _mm_crc32_u8(rest, static_cast<uint8_t>(*at));
  return ~rest;
}

}  // namespace bellows
