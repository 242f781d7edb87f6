// TensorPool: allocator of a device's tensor memory. That of a GPU keeps freed blocks for reuse
// (core/device/blocks.h). All functions are thread-safe.
#pragma once
#include <mutex>
#include "core/device/allocator.h"

namespace bellows {

// The functions do what those of the same names in core/device/allocator.h do.
class TensorPool {
 public:
  void configure(const AllocatorOptions& options);
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory, size_t bytes) noexcept = 0;
  virtual void empty() = 0;
  virtual AllocatorStats stats();
  virtual void record_use(const void*, Stream) {}  // hosts work in order
  virtual void join_common(int64_t) {}             // moves a graph's pool to the common one
  void reset_peak();

 protected:
  ~TensorPool() = default;
  void count_allocated(size_t bytes);

  std::mutex mutex_;  // guards all members below, and those of derived classes
  AllocatorOptions options_;
  AllocatorStats stats_;
};

// Returns the pool of the GPU, which allocates for the current stream.
TensorPool& device_pool();
// Pool of a captured graph from which this thread allocates on the GPU; 0: the common pool.
int64_t& pool_of_thread();

// Lets free blocks of host memory serve smaller requests for which no block is free, as samples of
// varying length need them. Call it once long-lived tensors exist, or they keep larger blocks.
void lend_larger_blocks(bool on);

}  // namespace bellows
