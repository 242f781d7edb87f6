#include "core/device/allocator.h"
#include <sys/mman.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>
#include "core/base/check.h"
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/device/device_pool.h"
#include "core/device/topology.h"

namespace bellows {

void visit(Visitor& v, AllocatorOptions& o) {
  v("caching", o.caching, "keep freed blocks and reuse them");
}

namespace {

// Four classes per doubling: beyond the first 256 bytes, at most a fifth of a block is unused.
struct SizeClass {
  size_t size;   // size of its blocks, in bytes
  size_t index;  // among all classes
};
constexpr size_t kClasses = 4 + 4 * 56;

SizeClass class_of(size_t bytes) {
  if (bytes <= 256) {
    const size_t lines = std::max<size_t>(ceil_div(bytes, 64), 1);
    return {lines * 64, lines - 1};
  }
  const int below = std::bit_width(bytes - 1) - 1;  // 2^below < bytes <= 2^(below + 1)
  const int quarter = below - 2;
  const size_t quarters = ((bytes - 1) >> quarter) + 1;  // 5 to 8
  return {quarters << quarter, (below - 8) * 4 + quarters - 1};
}

// Free blocks of a class. Each holds the address of the next, so a release needs no memory.
struct FreeBlocks {
  size_t size = 0;
  void* first = nullptr;

  void add(void* block) {
    std::memcpy(block, &first, sizeof first);
    first = block;
  }
  void* take() {
    void* const block = first;
    std::memcpy(&first, block, sizeof first);
    return block;
  }
};

class HostPool final : public TensorPool {
 public:
  void* allocate(size_t bytes) override {
    const auto [size, index] = class_of(bytes);
    const std::lock_guard lock(mutex_);
    void* const block = options_.caching ? from_cache(size, index) : from_system(size);
    count_allocated(size);
    return block;
  }

  void release(void* block, size_t bytes) noexcept override {
    auto [size, index] = class_of(bytes);
    const std::lock_guard lock(mutex_);
    stats_.allocated -= size;
    if (const auto larger = larger_.empty() ? larger_.end() : larger_.find(block);
        larger != larger_.end()) {
      index = larger->second;
      size = free_[index].size;
      larger_.erase(larger);
    }
    if (options_.caching) {
      free_[index].size = size;
      free_[index].add(block);
    } else {
      to_system(block, size);
    }
  }

  void empty() override {
    const std::lock_guard lock(mutex_);
    give_back();
  }
  void lend(bool on) { lends_ = on; }

 private:
  void* from_cache(size_t size, size_t index) {
    if (free_[index].first) {
      ++stats_.cache_hits;
      trace::count<"alloc.cache_hits">();
      return free_[index].take();
    }
    for (size_t larger = index + 1; lends_ && larger < kClasses; ++larger)
      if (free_[larger].first) {
        void* const block = free_[larger].take();
        larger_.emplace(block, larger);
        return block;
      }
    return from_system(size);
  }
  void give_back() {
    for (FreeBlocks& free : free_)
      while (free.first) to_system(free.take(), free.size);
  }
  void* from_system(size_t size) {
    ++stats_.system_calls;
    trace::count<"alloc.system_calls">();
    void* block = api_of(Device::cpu).allocate(size);
    if (!block) {  // free blocks of other sizes may hold the memory
      give_back();
      block = api_of(Device::cpu).allocate(size);
    }
    if (!block) {
      const bool in_a_module = !current_site()->path.empty();  // parameters are made outside
      fail(Exit::memory, "out of cpu memory: asked for ", size, " bytes with ", stats_.allocated,
           " held by tensors and ", stats_.reserved, " reserved; ",
           in_a_module ? "try a smaller data.batch_size"
                       : "free some memory, or try a smaller model or data.batch_size");
    }
    stats_.reserved += size;
    return block;
  }
  void to_system(void* block, size_t size) {
    stats_.reserved -= size;
    api_of(Device::cpu).release(block, size);
  }

  std::array<FreeBlocks, kClasses> free_;
  std::atomic<bool> lends_ = false;
  std::unordered_map<void*, size_t> larger_;  // class of blocks that serve smaller requests
};

}  // namespace

// Never destroyed: tensors in static objects are released after main().
static HostPool& host_pool() {
  static HostPool& pool = *new HostPool;
  return pool;
}
void lend_larger_blocks(bool on) { host_pool().lend(on); }

static TensorPool& pool_of(Device device) {
  return device == Device::cpu ? host_pool() : device_pool();
}

void configure_allocator(Device device, const AllocatorOptions& options) {
  pool_of(device).configure(options);
}
AllocatorStats allocator_stats(Device device) { return pool_of(device).stats(); }
void reset_peak(Device device) { pool_of(device).reset_peak(); }
void empty_cache(Device device) { pool_of(device).empty(); }

static constexpr BlockSource pools{
    [](Device device, size_t bytes) { return pool_of(device).allocate(bytes); },
    [](Device device, void* memory, size_t bytes) { pool_of(device).release(memory, bytes); }};
constinit std::atomic<const BlockSource*> block_source{&pools};

void* allocate(Device device, size_t bytes) {
  void* const memory = block_source.load()->allocate(device, bytes);
  if (trace::allocations_logged.load(std::memory_order_relaxed)) [[unlikely]]
    trace::note_allocation(memory, static_cast<int64_t>(bytes), static_cast<int>(device));
  return memory;
}

void release(Device device, void* memory, size_t bytes) noexcept {
  if (trace::allocations_logged.load(std::memory_order_relaxed)) [[unlikely]]
    trace::note_allocation(memory, -static_cast<int64_t>(bytes), static_cast<int>(device));
  block_source.load()->release(device, memory, bytes);
}

void record_use(Device device, const void* memory, Stream stream) {
  pool_of(device).record_use(memory, stream);
}

// ---- pools of captured graphs

static std::atomic<int64_t> last_pool{0};
MemoryPool::MemoryPool(Device device) : device_(device), id_(++last_pool) {}
MemoryPool::~MemoryPool() { pool_of(device_).join_common(id_); }

PoolScope::PoolScope(std::shared_ptr<const MemoryPool> pool)
    : Scoped(pool_of_thread(), pool ? pool->id_ : 0), pool_(std::move(pool)) {}

}  // namespace bellows
