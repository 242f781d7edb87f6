// DevicePool: the memory of a device. Freed blocks are kept and handed out again
// (core/device/blocks.h).
//
// Note [When a block is free]: a tensor may be released while work that uses it is still queued. On
// the block's own stream that does no harm: whoever gets it next is queued behind. Streams that
// record_use() named get an event at the release, and the block is free once all of these are
// ready. They are asked at each allocation, and never waited for, except before memory runs out.
#pragma once
#include <deque>
#include <mutex>
#include <thread>
#include "core/base/trace.h"
#include "core/device/blocks.h"

namespace bellows {

class DevicePool {
 public:
  explicit DevicePool(Device device);

  void configure(const AllocatorOptions& options);
  // For the current stream, out of the pool of the thread's PoolScope. As in
  // core/device/allocator.h.
  void* allocate(size_t bytes);
  void release(void* memory) noexcept;
  void record_use(const void* memory, Stream stream);
  void reserve(size_t bytes);
  void empty();
  AllocatorStats stats();
  void reset_peak();

  // Pools of captured graphs: of what this thread allocates (returns the one before), and all.
  static int64_t enter(int64_t pool);
  int64_t bytes_of(int64_t pool);
  void join_common(int64_t pool);

 private:
  // What a stream still uses: it is done with when the event is ready.
  struct Use {
    void* event;
    Block* block;
  };
  Block& grow(const Home& home, size_t size);
  void* from_system(size_t bytes);
  void to_system(const Segment& segment);
  void free_idle();
  void set_free(Block& block);
  void mark_uses(Block& block);
  void collect();  // the blocks whose users are done
  void wait_for_uses();
  [[noreturn]] void refuse(size_t bytes);

  const Device device_;
  const DeviceApi& api_;
  std::mutex mutex_;
  bool caching_ = false;
  Blocks blocks_;
  std::map<void*, std::deque<Use>> uses_;  // by stream, in the order of their events
  // Released in a capture, by that thread: their users are asked after it.
  std::vector<Block*> captured_;
  std::thread::id captured_by_;
  std::vector<void*> spare_events_;
  AllocatorStats stats_;
  trace::Counter& hits_ = trace::counter("alloc.cache_hits");
  trace::Counter& calls_ = trace::counter("alloc.system_calls");
};

}  // namespace bellows
