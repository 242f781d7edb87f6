#include "core/allocator.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>
#include "core/check.h"
#include "core/trace.h"

namespace bellows {

void visit(Visitor& v, AllocatorOptions& o) {
  v("caching", o.caching, "keep freed blocks and reuse them");
  v("reserve_mb", o.reserve_mb, "MiB taken from the system at the start", {.min = 0});
}

namespace {

constexpr size_t kGuard = 64;
constexpr unsigned char kPattern = 0xa5;

// Four classes for each doubling: at most a fifth of a block is unused beyond the first 256 bytes.
struct SizeClass {
  size_t size;   // of its blocks
  size_t index;  // among all classes
};
constexpr size_t kClasses = 4 + 4 * 56;

SizeClass class_of(size_t bytes) {
  if (bytes <= 256) {
    const size_t lines = std::max<size_t>((bytes + 63) / 64, 1);
    return {lines * 64, lines - 1};
  }
  const int below = std::bit_width(bytes - 1) - 1;  // 2^below < bytes <= 2^(below + 1)
  const int quarter = below - 2;
  const size_t quarters = ((bytes - 1) >> quarter) + 1;  // 5 to 8
  return {quarters << quarter, (below - 8) * 4 + quarters - 1};
}

struct FreeBlocks {
  size_t size = 0;
  std::vector<void*> blocks;
};

struct Arena {
  std::byte* memory;
  size_t bytes, used = 0;
};

class Pool {
 public:
  void configure(const AllocatorOptions& options) {
    {
      const std::lock_guard lock(mutex_);
      caching_ = options.caching;
    }
    if (!options.caching) empty();
    if (options.reserve_mb) reserve(options.reserve_mb << 20);
  }

  void* allocate(size_t bytes) {
    const auto [size, index] = class_of(bytes);
    const std::lock_guard lock(mutex_);
    void* const block = caching_ ? from_cache(size, index) : from_system(size);
    stats_.allocated += size;
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    return block;
  }

  void release(void* block, size_t bytes) {
    const auto [size, index] = class_of(bytes);
    const std::lock_guard lock(mutex_);
    stats_.allocated -= size;
    if (caching_ || in_arena(block)) {
      free_[index].size = size;
      free_[index].blocks.push_back(block);
    } else {
      to_system(block, size);
    }
  }

  void reserve(size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes = (bytes + 63) / 64 * 64;
    arenas_.push_back({static_cast<std::byte*>(from_system(bytes)), bytes});
  }

  void empty() {
    const std::lock_guard lock(mutex_);
    for (FreeBlocks& free : free_)
      std::erase_if(free.blocks, [&](void* block) {
        return !in_arena(block) && (to_system(block, free.size), true);
      });
  }

  AllocatorStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak_allocated = stats_.allocated;
  }

  Device device = Device::cpu;

 private:
  void* from_cache(size_t size, size_t index) {
    if (std::vector<void*>& blocks = free_[index].blocks; !blocks.empty()) {
      ++stats_.cache_hits;
      hits_.add();
      void* const block = blocks.back();
      blocks.pop_back();
      return block;
    }
    for (Arena& arena : arenas_)
      if (arena.bytes - arena.used >= size)
        return arena.memory + std::exchange(arena.used, arena.used + size);
    return from_system(size);
  }
  void* from_system(size_t size) {
    ++stats_.system_calls;
    calls_.add();
    void* const block = api_of(device).allocate(size);
    if (!block)
      fail(Exit::memory, "out of ", device, " memory: asked for ", size, " bytes with ",
           stats_.allocated, " held by tensors and ", stats_.reserved,
           " reserved; try a smaller data.batch_size");
    stats_.reserved += size;
    return block;
  }
  void to_system(void* block, size_t size) {
    stats_.reserved -= size;
    api_of(device).release(block, size);
  }
  bool in_arena(const void* block) const {
    return std::ranges::any_of(arenas_, [&](const Arena& arena) {
      return block >= arena.memory && block < arena.memory + arena.bytes;
    });
  }

  std::mutex mutex_;
  bool caching_ = false;
  std::array<FreeBlocks, kClasses> free_;
  std::vector<Arena> arenas_;
  AllocatorStats stats_;
  trace::Counter& hits_ = trace::counter("alloc.cache_hits");
  trace::Counter& calls_ = trace::counter("alloc.system_calls");
};

struct Guards {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::map<void*, size_t> guarded;  // user address to size: blocks made while guards were on
  std::string complaint;
};

}  // namespace

// Never destroyed: tensors in static objects are freed after main.
static Pool& pool_of(Device device) {
  static std::array<Pool, kDevices>& pools = [&]() -> std::array<Pool, kDevices>& {
    auto& made = *new std::array<Pool, kDevices>;
    made[1].device = Device::cuda;
    return made;
  }();
  return pools[static_cast<int>(device)];
}
static Guards& guards() {
  static Guards& all = *new Guards;
  return all;
}

void configure_allocator(Device device, const AllocatorOptions& options) {
  pool_of(device).configure(options);
}
AllocatorStats allocator_stats(Device device) { return pool_of(device).stats(); }
void reset_peak(Device device) { pool_of(device).reset_peak(); }
void reserve(Device device, int64_t bytes) { pool_of(device).reserve(bytes); }
void empty_cache(Device device) { pool_of(device).empty(); }

static void* allocate_guarded(Device device, size_t bytes) {
  auto* const block = static_cast<std::byte*>(pool_of(device).allocate(bytes + 2 * kGuard));
  std::memset(block, kPattern, kGuard);
  std::memset(block + kGuard, 0xff, bytes);
  std::memset(block + kGuard + bytes, kPattern, kGuard);
  const std::lock_guard lock(guards().mutex);
  guards().guarded[block + kGuard] = bytes;
  return block + kGuard;
}

static bool release_guarded(Device device, void* memory, size_t bytes) {
  {
    const std::lock_guard lock(guards().mutex);
    if (!guards().guarded.erase(memory)) return false;
    const auto* const after = static_cast<unsigned char*>(memory) + bytes;
    const auto* const before = static_cast<unsigned char*>(memory) - kGuard;
    const auto intact = [](const unsigned char* zone) {
      return std::all_of(zone, zone + kGuard, [](unsigned char c) { return c == kPattern; });
    };
    if (!intact(before) || !intact(after))
      guards().complaint =
          cat("a write ", intact(after) ? "before" : "after", " a block of ", bytes, " bytes");
  }
  pool_of(device).release(static_cast<std::byte*>(memory) - kGuard, bytes + 2 * kGuard);
  return true;
}

void* allocate(Device device, size_t bytes) {
  if (guards().on.load(std::memory_order_relaxed) && device == Device::cpu) [[unlikely]]
    return allocate_guarded(device, bytes);
  return pool_of(device).allocate(bytes);
}

void release(Device device, void* memory, size_t bytes) noexcept {
  if (device == Device::cpu && !guards().guarded.empty() && release_guarded(device, memory, bytes))
    return;
  pool_of(device).release(memory, bytes);
}

void guard_allocations(bool on) { guards().on = on; }
std::string guard_complaint() {
  const std::lock_guard lock(guards().mutex);
  return std::exchange(guards().complaint, {});
}

}  // namespace bellows
