// Guard zones: a pattern before and after each block reveals writes past its ends, and fresh memory
// reads as NaN. On a device, all of this is work on the block's stream: the zones are copied when
// the block is released, and guard_complaint() checks the copies.
#pragma once
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>
#include "core/base/check.h"
#include "core/device/allocator.h"
#include "core/device/graph.h"

namespace bellows {

namespace guards {

constexpr int kPattern = 0xa5, kFresh = 0xff;
constexpr size_t kLooks = 256;  // per slab

struct Guarded {
  size_t bytes;
  Stream stream;
};

// Copy of the two zones of a block, in pinned memory.
struct Look {
  std::byte* zones;
  Guarded block;
};

struct Guards {
  const BlockSource& pools = *block_source;
  std::atomic<bool> enabled = false;
  std::mutex mutex;
  std::map<void*, Guarded> blocks;
  std::atomic<int64_t> guarded = 0;  // number of them, read without the mutex
  std::vector<Look> looks;
  std::vector<std::byte*> slabs;  // pinned: kLooks looks each
  std::string complaint;
};

// Never destroyed: tensors in static objects are released after main().
inline Guards& all() {
  static Guards& guards = *new Guards;
  return guards;
}

inline size_t zone(Device device) { return device == Device::cpu ? 64 : 256; }  // bytes, each side

// Fills the zones of a new block with a pattern, and the memory between them with NaN.
inline void* allocate(Device device, size_t bytes) {
  if (!all().enabled) return all().pools.allocate(device, bytes);
  void* const block = all().pools.allocate(device, bytes + 2 * zone(device));
  auto* const memory = static_cast<std::byte*>(block) + zone(device);
  const Stream stream = current_stream(device);
  const DeviceApi& api = api_of(device);
  api.set(block, kPattern, zone(device), stream);
  api.set(memory, kFresh, bytes, stream);
  api.set(memory + bytes, kPattern, zone(device), stream);
  const std::lock_guard lock(all().mutex);
  all().blocks[memory] = {bytes, stream};
  ++all().guarded;
  return memory;
}

inline void judge(const std::byte* before, const std::byte* after, const Guarded& block) {
  const size_t bytes = zone(block.stream.device);
  const auto intact = [bytes](const std::byte* zone) {
    return std::all_of(zone, zone + bytes, [](std::byte b) { return b == std::byte{kPattern}; });
  };
  if (intact(before) && intact(after)) return;
  if (!all().complaint.empty()) return;
  all().complaint = cat("a write ", intact(after) ? "before" : "after", " a block of ", block.bytes,
                        " bytes", block.stream.device == Device::cpu ? "" : " on the device");
}

// Returns pinned memory for a copy of two zones.
inline std::byte* free_look(Device device) {
  const size_t bytes = 2 * zone(device), at = all().looks.size() % kLooks;
  if (at == 0) {
    void* const slab = api_of(device).allocate_pinned(kLooks * bytes);
    if (!slab) fail(Exit::memory, "no pinned memory for guard zones");
    all().slabs.push_back(static_cast<std::byte*>(slab));
  }
  return all().slabs.back() + at * bytes;
}

inline void look_at(const std::byte* memory, const Guarded& block) {
  const Device device = block.stream.device;
  const size_t bytes = zone(device);
  if (device == Device::cpu) return judge(memory - bytes, memory + block.bytes, block);
  std::byte* const zones = free_look(device);
  api_of(device).copy(zones, memory - bytes, bytes, block.stream);
  api_of(device).copy(zones + bytes, memory + block.bytes, bytes, block.stream);
  all().looks.push_back({zones, block});
}

// Checks the zones around a block that is being released. Returns false if it has none. Checks
// nothing during a capture, because each replay would copy the zones again.
inline bool take_down(Device device, void* memory) {
  if (all().guarded == 0) return false;
  const std::lock_guard lock(all().mutex);
  const auto found = all().blocks.find(memory);
  if (found == all().blocks.end()) return false;
  if (device == Device::cpu || !capturing())
    look_at(static_cast<std::byte*>(memory), found->second);
  all().blocks.erase(found);
  --all().guarded;
  return true;
}

inline void release(Device device, void* memory, size_t bytes) {
  if (!take_down(device, memory)) return all().pools.release(device, memory, bytes);
  const size_t side = zone(device);
  all().pools.release(device, static_cast<std::byte*>(memory) - side, bytes + 2 * side);
}

inline void judge_looks() {
  for (const Look& look : all().looks) {
    const Device device = look.block.stream.device;
    api_of(device).synchronize(look.block.stream);
    judge(look.zones, look.zones + zone(device), look.block);
  }
  all().looks.clear();
  for (std::byte* slab : std::exchange(all().slabs, {}))
    api_of(Device::cuda).release_pinned(slab, kLooks * 2 * zone(Device::cuda));
}

inline constexpr BlockSource kGuarded{allocate, release};

}  // namespace guards

// From now on, new blocks have guard zones, or have none. Those that have them are checked when
// they are released, in either case.
inline void guard_allocations(bool on) {
  guards::all().enabled = on;
  block_source = &guards::kGuarded;
}

// Returns the first overrun since the last call, or "". On a device, waits for all queued work and
// also checks blocks that are still in use.
inline std::string guard_complaint() {
  guards::Guards& all = guards::all();
  const std::lock_guard lock(all.mutex);
  for (const auto& [memory, block] : all.blocks)
    if (block.stream.device != Device::cpu)
      guards::look_at(static_cast<const std::byte*>(memory), block);
  guards::judge_looks();
  return std::exchange(all.complaint, {});
}

}  // namespace bellows
