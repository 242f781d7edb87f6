// Blocks: bookkeeping of a device's memory. Segments from the system are split into blocks. An
// allocation takes the best fit; a freed block merges with its free neighbors. Never touches the
// memory or the device. Not thread-safe.
//
// Sizes are PyTorch's (c10/cuda/CUDACachingAllocator.cpp): multiples of 512 bytes. Blocks of up to
// 1 MiB are in segments of 2 MiB, so a small long-lived tensor never fragments a large segment.
// Larger blocks share segments of 20 MiB; from 10 MiB on, each has its own segment.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>
#include "core/base/module_path.h"
#include "core/base/pool.h"
#include "core/device/allocator.h"

namespace bellows {

// Identifies the stream and pool whose later allocations may reuse a block.
struct BlockKey {
  int64_t pool = 0;  // id of a MemoryPool; 0: the common pool
  void* stream = nullptr;
  bool small = false;
  auto operator<=>(const BlockKey&) const = default;
};

struct Segment {
  std::byte* begin;
  size_t size;
  BlockKey home;
};

struct Block {
  std::byte* at;
  size_t size;
  Segment* segment;
  enum { free, held, waiting } state = free;  // waiting: other streams still use it
  const ModuleSite* site = nullptr;           // module and kernel that allocated it
  const char* op = nullptr;
  std::vector<Stream> users = {};  // other streams that use it
  int events = 0;                  // events of `users` that are not ready yet
};

class Blocks {
 public:
  static constexpr size_t kRound = 512, kSmall = size_t{1} << 20;
  static size_t rounded(size_t bytes);         // size of a block for `bytes`
  static size_t segment_size(size_t rounded);  // bytes to request from the system for such a block

  // Takes the smallest free block of `home` that is large enough, and splits off the rest. Returns
  // null if there is none.
  Block* take(const BlockKey& home, size_t rounded);
  // Adds a new segment as one free block.
  void add(void* memory, size_t bytes, const BlockKey& home);
  // Frees a held or waiting block. Returns the block after merging it with its free neighbors.
  Block& give(Block& block);
  Block* find(const void* memory);  // the block that contains the address, or null

  // Removes and returns the segments of the common pool that are entirely free.
  std::vector<Segment> take_idle();
  std::optional<Segment> take_idle(const Block& block);  // the segment of `block`, if it is free
  void join_common(int64_t pool);  // moves the pool's segments to the common pool

  void fill_in(AllocatorStats& stats) const;       // sets `free` and `largest_free`
  std::vector<const Block*> largest_held() const;  // descending

 private:
  struct Free {
    BlockKey home;
    size_t size;
    std::byte* at;
    Block* block;
    auto operator<=>(const Free& other) const {
      return std::tie(home, size, at) <=> std::tie(other.home, other.size, other.at);
    }
  };
  template <class T> using Pooled = SmallBlockAllocator<T>;
  using ByAddress =
      std::map<std::byte*, Block, std::less<>, Pooled<std::pair<std::byte* const, Block>>>;

  void set_free(Block& block);

  std::map<std::byte*, Segment> segments_;
  ByAddress blocks_;
  std::set<Free, std::less<>, Pooled<Free>> free_;
};

}  // namespace bellows
