// Tensor memory. Off, each tensor is one call to the system; on, freed blocks are kept and reused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include "core/device.h"
#include "core/visitor.h"

namespace bellows {

struct AllocatorOptions {
  bool caching = false;
  int64_t reserve_mb = 0;  // taken from the system at once; 0: as tensors ask for it
};
void visit(Visitor& v, AllocatorOptions& o);

struct AllocatorStats {
  int64_t allocated = 0, peak_allocated = 0;  // bytes that tensors hold
  int64_t reserved = 0;                       // bytes taken from the system
  int64_t system_calls = 0, cache_hits = 0;
};

// Set before the first step; changing it later frees what is cached. Thread-safe, as all below.
void configure_allocator(Device device, const AllocatorOptions& options);
AllocatorStats allocator_stats(Device device);
void reset_peak(Device device);
void reserve(Device device, int64_t bytes);  // one block from the system, to be cut up later
void empty_cache(Device device);

// 64-byte aligned. `bytes` must be the same at both ends. Out of memory: what the process holds is
// in the message, exit 6.
void* allocate(Device device, size_t bytes);
void release(Device device, void* memory, size_t bytes) noexcept;

// For tests: 64 bytes before and after each block are checked when it is freed, and fresh memory
// reads as NaN. Returns the first overrun found since the last call, or "".
void guard_allocations(bool on);
std::string guard_complaint();

}  // namespace bellows
