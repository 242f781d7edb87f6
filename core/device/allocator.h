// Allocator of tensor memory. Without caching, each tensor is one call to the system. With caching,
// freed blocks are kept and reused: on the CPU by size class (core/device/allocator.cpp), on a
// device by stream (core/device/device_pool.cpp).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include "core/base/scoped.h"
#include "core/device/device.h"

namespace bellows {

class Visitor;

struct AllocatorOptions {
  bool caching = false;
};
void visit(Visitor& v, AllocatorOptions& o);

struct AllocatorStats {
  int64_t allocated = 0, peak_allocated = 0;  // bytes in use by tensors
  int64_t reserved = 0;                       // bytes taken from the system
  int64_t system_calls = 0, cache_hits = 0;
  int64_t free = 0, largest_free = 0;  // bytes in free blocks, and in the largest; devices only
  // Returns the share of the free bytes outside the largest free block.
  double fragmentation() const { return free ? 1 - double(largest_free) / double(free) : 0; }
};

// Call configure_allocator() before the first step; turning caching off later frees cached blocks.
// All functions here are thread-safe.
void configure_allocator(Device device, const AllocatorOptions& options);
AllocatorStats allocator_stats(Device device);
void reset_peak(Device device);
void empty_cache(Device device);

// Returns memory aligned to 64 bytes, 256 on a device. Device memory belongs to the thread's
// current stream; the order of that stream makes reuse safe. Call release() with the same `bytes`.
// If out of memory, throws Error, exit 6, with the memory use.
void* allocate(Device device, size_t bytes);
void release(Device device, void* memory, size_t bytes) noexcept;
// Reports that work on a stream other than the owning one uses the block. After its release, the
// block is not reused before the work queued on that stream by then is done. `memory` may be any
// address in the block. No effect on the CPU.
void record_use(Device device, const void* memory, Stream stream);

// Private memory of a captured graph. Allocations by a thread inside a PoolScope come from it and
// return to it wherever they are released, so no other tensor gets memory that a replay writes.
// When its last owner is gone, its memory joins the common pool. No effect on the CPU.
class MemoryPool {
 public:
  explicit MemoryPool(Device device);
  ~MemoryPool();
  MemoryPool(MemoryPool&&) = delete;

 private:
  friend class PoolScope;
  const Device device_;
  const int64_t id_;
};
class PoolScope : Scoped<int64_t> {
 public:
  // Null selects the common pool.
  explicit PoolScope(std::shared_ptr<const MemoryPool> pool);

 private:
  const std::shared_ptr<const MemoryPool> pool_;
};

// Functions that allocate() and release() call: those of the pools. Tests put guard zones around
// each block instead (tests/guards.h).
struct BlockSource {
  void* (*allocate)(Device device, size_t bytes);
  void (*release)(Device device, void* memory, size_t bytes);
};
extern std::atomic<const BlockSource*> block_source;

}  // namespace bellows
