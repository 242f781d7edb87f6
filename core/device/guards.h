// Guard zones for tests: a pattern before and after each block shows who writes past its ends, and
// fresh memory reads as NaN. On a device all of it is work of the block's stream: a copy of the
// zones, taken when the block is released, is looked at when somebody asks.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include "core/device/device.h"

namespace bellows::guards {

inline constinit std::atomic<bool> enabled{false};
inline constinit std::atomic<int64_t> guarded{0};  // blocks that have zones
inline bool on() { return enabled.load(std::memory_order_relaxed); }
inline bool any() { return guarded.load(std::memory_order_relaxed) > 0; }
inline size_t zone(Device device) { return device == Device::cpu ? 64 : 256; }  // bytes, each side

// `block` has room for both zones. Returns the memory between them.
void* set_up(Device device, void* block, size_t bytes);
// Checks the zones around a block that is being released; false if it was made without them. In a
// capture nothing is checked: the zones would be copied again at each replay.
bool take_down(Device device, void* memory);

}  // namespace bellows::guards
