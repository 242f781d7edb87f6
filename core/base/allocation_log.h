// A log of the blocks that tensors take and return, for profiles of memory. Off, it costs one
// atomic load for each of them.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>
#include "core/base/module_path.h"

namespace bellows {

struct Allocation {
  const void* block;
  int64_t bytes;           // negative: the block was released
  const ModuleSite* site;  // module of the calling thread
  int64_t at_ns;           // by trace::now_ns()
  int device = 0;          // as a Device
};

// All functions are thread-safe.
void log_allocations(bool on);
std::vector<Allocation> take_allocations();  // those since the last call, in order

inline constinit std::atomic<bool> allocations_logged{false};
// Notes that a block was allocated, or with negative `bytes` released. For the allocator.
void note_allocation(const void* block, int64_t bytes, int device) noexcept;

}  // namespace bellows
