// TensorPool: allocator of a device's tensor memory. DevicePool: that of a GPU, which keeps freed
// blocks for reuse (core/device/blocks.h). Both are thread-safe.
//
// Note [When a block is free]: a tensor may be released while queued work still uses it. On the
// block's own stream this is safe: work on the reused block is queued after it. For each stream
// that record_use() named, release() records an event, and the block is free when all events are
// ready. Allocations query the events, but wait for them only before memory would run out.
#pragma once
#include <deque>
#include <mutex>
#include "core/device/blocks.h"

namespace bellows {

// The functions do what those of the same names in core/device/allocator.h do.
class TensorPool {
 public:
  void configure(const AllocatorOptions& options);
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory, size_t bytes) noexcept = 0;
  virtual void empty() = 0;
  virtual AllocatorStats stats();
  void reset_peak();

 protected:
  ~TensorPool() = default;
  void count_allocated(size_t bytes);

  std::mutex mutex_;  // guards all members below, and those of derived classes
  AllocatorOptions options_;
  AllocatorStats stats_;
};

class DevicePool final : public TensorPool {
 public:
  explicit DevicePool(Device device);

  // Allocates for the current stream, from the pool of the thread's PoolScope.
  void* allocate(size_t bytes) override;
  void release(void* memory, size_t bytes) noexcept override;
  void record_use(const void* memory, Stream stream);
  void empty() override;
  AllocatorStats stats() override;

  // Pools of captured graphs (0: the common pool). enter() sets the pool of this thread's
  // allocations and returns the previous one.
  static int64_t enter(int64_t pool);
  void join_common(int64_t pool);

 private:
  // A stream's use of a released block, which ends when the event is ready.
  struct Use {
    void* event;
    Block* block;
  };
  Block& grow(const BlockKey& home, size_t size);
  void* from_system(size_t bytes);
  void to_system(const Segment& segment);
  void free_idle();
  void set_free(Block& block);
  void mark_uses(Block& block);
  void collect();  // frees the blocks whose uses have ended
  void wait_for_uses();
  [[noreturn]] void refuse(size_t bytes);

  const Device device_;
  const DeviceApi& api_;
  Blocks blocks_;
  std::map<void*, std::deque<Use>> uses_;  // uses by stream, in the order of their events
  std::vector<Block*> captured_;  // released during a capture; their events are recorded after it
  std::vector<void*> spare_events_;
};

// Lets free blocks of host memory serve smaller requests for which no block is free, as samples of
// varying length need them. Call it once long-lived tensors exist, or they keep larger blocks.
void lend_larger_blocks(bool on);

}  // namespace bellows
