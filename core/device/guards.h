// Guard zones for tests: a pattern before and after each block reveals writes past its ends, and
// fresh memory reads as NaN. On a device, all of this is work on the block's stream: the zones are
// copied when the block is released, and guard_complaint() checks the copies.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include "core/device/device.h"

namespace bellows::guards {

inline constinit std::atomic<bool> enabled{false};
inline constinit std::atomic<int64_t> guarded{0};  // number of blocks that have zones
inline bool on() { return enabled.load(std::memory_order_relaxed); }
inline bool any() { return guarded.load(std::memory_order_relaxed) > 0; }
inline size_t zone(Device device) { return device == Device::cpu ? 64 : 256; }  // bytes, each side

// Fills the zones of `block`, which has room for both, with a pattern, and the memory between them
// with NaN. Returns that memory.
void* set_up(Device device, void* block, size_t bytes);
// Checks the zones around a block that is being released. Returns false if it has none. Checks
// nothing during a capture, because each replay would copy the zones again.
bool take_down(Device device, void* memory);

}  // namespace bellows::guards
