// Blocks: the book-keeping of a device's memory. Segments come from the system and are cut into
// blocks; the best fit is found, split, and merged with its free neighbours afterwards. Pure: it
// never touches the memory, nor the device.
//
// Sizes are PyTorch's (c10/cuda/CUDACachingAllocator.cpp): multiples of 512 bytes; blocks of up to
// 1 MiB live in segments of 2 MiB, so that a small tensor that stays never keeps a large segment in
// pieces; larger ones share segments of 20 MiB or, from 10 MiB on, have one of their own.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <vector>
#include "core/base/module_path.h"
#include "core/base/pool.h"
#include "core/device/allocator.h"

namespace bellows {

// Who may use a block again: work on this stream, out of this pool.
struct Home {
  int64_t pool = 0;  // 0: everybody's; else that of a MemoryPool
  void* stream = nullptr;
  bool small = false;
  auto operator<=>(const Home&) const = default;
};

struct Segment {
  std::byte* begin;
  size_t size;
  Home home;
};

struct Block {
  std::byte* at;
  size_t size;
  Segment* segment;
  enum { free, held, waiting } state = free;  // waiting: for streams that still use it
  const Site* site = nullptr;                 // where it was asked for, and by which kernel
  const char* op = nullptr;
  std::vector<Stream> users = {};  // streams other than its own
  int events = 0;                  // of theirs that have to be ready first
};

class Blocks {
 public:
  static constexpr size_t kRound = 512, kSmall = size_t{1} << 20;
  static size_t rounded(size_t bytes);         // what a block for so many bytes takes
  static size_t segment_size(size_t rounded);  // what is asked of the system for it

  // The smallest free block of that home which is large enough, cut to size. Null: none.
  Block* take(const Home& home, size_t rounded);
  // A new segment, free as a whole.
  void add(void* memory, size_t bytes, const Home& home);
  // A held or waiting block becomes free and one with its free neighbours.
  Block& give(Block& block);
  Block* find(const void* memory);  // the block that the address is in; null: not one of ours

  // Takes out the segments of everybody's pool that are free as a whole, and says which.
  std::vector<Segment> take_idle();
  std::optional<Segment> take_idle(const Block& block);  // its segment, if that is one
  void join_common(int64_t pool);  // that pool's segments are everybody's from now on

  int64_t bytes_of(int64_t pool) const;            // of its segments
  void fill_in(AllocatorStats& stats) const;       // splits and what follows it
  std::vector<const Block*> largest_held() const;  // descending

 private:
  struct Free {
    Home home;
    size_t size;
    std::byte* at;
    Block* block;
    auto operator<=>(const Free& other) const {
      return std::tie(home, size, at) <=> std::tie(other.home, other.size, other.at);
    }
  };
  template <class T> using Pooled = PoolAllocator<T>;
  using ByAddress =
      std::map<std::byte*, Block, std::less<>, Pooled<std::pair<std::byte* const, Block>>>;

  void set_free(Block& block);
  void swallow(Block& block, ByAddress::iterator next);  // next becomes its end

  std::map<std::byte*, Segment> segments_;
  ByAddress blocks_;
  std::set<Free, std::less<>, Pooled<Free>> free_;
  int64_t splits_ = 0, merges_ = 0;
};

}  // namespace bellows
