// Tensor memory. Off, each tensor is one call to the system; on, freed blocks are kept and reused:
// on the CPU by size class (core/device/allocator.cpp), on a device by stream
// (core/device/device_pool.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include "core/config/visitor.h"
#include "core/device/device.h"

namespace bellows {

struct AllocatorOptions {
  bool caching = false;
  int64_t reserve_mb = 0;   // taken from the system at once, with caching; 0: as tensors ask
  bool huge_pages = false;  // host memory from 2 MiB on comes in pages of that size
};
void visit(Visitor& v, AllocatorOptions& o);

struct AllocatorStats {
  int64_t allocated = 0, peak_allocated = 0;  // bytes that tensors hold
  int64_t reserved = 0, peak_reserved = 0;    // bytes taken from the system
  int64_t system_calls = 0, cache_hits = 0;
  // Of a device only.
  int64_t splits = 0, merges = 0;      // of blocks
  int64_t free = 0, largest_free = 0;  // bytes in free blocks, and in the largest one
  int64_t inactive_split = 0;          // free bytes whose segment also has blocks in use
  // Share of the free bytes that one request cannot have.
  double fragmentation() const { return free ? 1 - double(largest_free) / double(free) : 0; }
};

// Set before the first step; changing it later frees what is cached. Thread-safe, as all below.
void configure_allocator(Device device, const AllocatorOptions& options);
AllocatorStats allocator_stats(Device device);
void reset_peak(Device device);
void reserve(Device device, int64_t bytes);  // one block from the system, to be cut up later
void empty_cache(Device device);

// 64-byte aligned, 256 on a device; there it belongs to the thread's current stream, whose order
// makes it safe to use again. `bytes` must be the same at both ends. Out of memory: who holds what
// is in the message, exit 6.
void* allocate(Device device, size_t bytes);
void release(Device device, void* memory, size_t bytes) noexcept;
// Work on another stream than the one it belongs to uses it: once released, nobody gets it before
// what is queued there by then is done. `memory` may point anywhere into it.
void record_use(Device device, const void* memory, Stream stream);

// Memory of its own for a captured graph: what a thread allocates inside of a PoolScope comes from
// there, and goes back there wherever it is released, so nobody else gets what a replay will write.
// With its last owner it ends, and its memory becomes everybody's.
class MemoryPool {
 public:
  explicit MemoryPool(Device device);
  ~MemoryPool();
  MemoryPool(MemoryPool&&) = delete;
  int64_t reserved() const;  // bytes taken from the system

 private:
  friend class PoolScope;
  const Device device_;
  const int64_t id_;
};
class PoolScope {
 public:
  // Null: everybody's memory.
  explicit PoolScope(std::shared_ptr<const MemoryPool> pool);
  ~PoolScope();
  PoolScope(PoolScope&&) = delete;

 private:
  const std::shared_ptr<const MemoryPool> pool_;
  const int64_t previous_;
};

// For tests: the bytes before and after each block are checked when it is freed, and fresh memory
// reads as NaN. Returns the first overrun found since the last call, or ""; on a device it waits
// for all that was queued, and looks at the blocks that are still held, too.
void guard_allocations(bool on);
std::string guard_complaint();

}  // namespace bellows
