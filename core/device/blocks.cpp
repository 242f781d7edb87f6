#include "core/device/blocks.h"
#include <algorithm>
#include "core/base/round.h"

namespace bellows {

static constexpr size_t kMiB = size_t{1} << 20;

size_t Blocks::rounded(size_t bytes) { return round_up(std::max(bytes, size_t{1}), kRound); }

size_t Blocks::segment_size(size_t rounded) {
  if (rounded <= kSmall) return 2 * kMiB;
  return rounded < 10 * kMiB ? 20 * kMiB : round_up(rounded, 2 * kMiB);
}

// True if the rest is usable: a large segment serves only requests above kSmall.
static bool worth_splitting(const BlockKey& home, size_t rest) {
  return home.small ? rest >= Blocks::kRound : rest > Blocks::kSmall;
}

void Blocks::set_free(Block& block) {
  block.state = Block::free;
  free_.insert({block.segment->home, block.size, block.at, &block});
}

Block* Blocks::take(const BlockKey& home, size_t rounded) {
  const auto found = free_.lower_bound({home, rounded, nullptr, nullptr});
  if (found == free_.end() || found->home != home) return nullptr;
  Block& block = *found->block;
  free_.erase(found);
  block.state = Block::held;
  const size_t rest = block.size - rounded;
  if (!worth_splitting(home, rest)) return &block;
  block.size = rounded;
  std::byte* const at = block.at + rounded;
  set_free(blocks_.emplace(at, Block{at, rest, block.segment}).first->second);
  return &block;
}

void Blocks::add(void* memory, size_t bytes, const BlockKey& home) {
  auto* const begin = static_cast<std::byte*>(memory);
  Segment& segment = segments_.insert_or_assign(begin, Segment{begin, bytes, home}).first->second;
  set_free(blocks_.emplace(begin, Block{begin, bytes, &segment}).first->second);
}

Block& Blocks::give(Block& block) {
  const auto drop = [&](const Block& neighbor) {
    free_.erase({neighbor.segment->home, neighbor.size, neighbor.at, nullptr});
  };
  const auto joins = [&](ByAddress::iterator neighbor) {
    return neighbor->second.segment == block.segment && neighbor->second.state == Block::free;
  };
  const auto merge = [&](Block& into, ByAddress::iterator next) {
    into.size += next->second.size;
    blocks_.erase(next);
  };
  const auto here = blocks_.find(block.at), after = std::next(here);
  if (after != blocks_.end() && joins(after)) {
    drop(after->second);
    merge(block, after);
  }
  Block* whole = &block;
  if (here != blocks_.begin() && joins(std::prev(here))) {
    whole = &std::prev(here)->second;
    drop(*whole);
    merge(*whole, here);
  }
  set_free(*whole);
  return *whole;
}

Block* Blocks::find(const void* memory) {
  const auto* const at = static_cast<const std::byte*>(memory);
  const auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return nullptr;
  Block& block = std::prev(after)->second;
  return at < block.at + block.size ? &block : nullptr;
}

std::optional<Segment> Blocks::take_idle(const Block& block) {
  const Segment segment = *block.segment;
  if (block.state != Block::free || block.size != segment.size || segment.home.pool) return {};
  free_.erase({segment.home, block.size, block.at, nullptr});
  blocks_.erase(segment.begin);
  segments_.erase(segment.begin);
  return segment;
}

std::vector<Segment> Blocks::take_idle() {
  std::vector<const Block*> all;
  for (const auto& [at, block] : blocks_) all.push_back(&block);
  std::vector<Segment> idle;
  for (const Block* block : all)
    if (const auto segment = take_idle(*block)) idle.push_back(*segment);
  return idle;
}

void Blocks::join_common(int64_t pool) {
  std::vector<Block*> moving;
  for (auto at = free_.lower_bound({{pool}, 0, nullptr, nullptr});
       at != free_.end() && at->home.pool == pool; at = free_.erase(at))
    moving.push_back(at->block);
  for (auto& [begin, segment] : segments_)
    if (segment.home.pool == pool) segment.home.pool = 0;
  for (Block* block : moving) set_free(*block);
}

void Blocks::fill_in(AllocatorStats& stats) const {
  stats.free = stats.largest_free = 0;
  for (const Free& free : free_) {
    const auto size = static_cast<int64_t>(free.size);
    stats.free += size;
    stats.largest_free = std::max(stats.largest_free, size);
  }
}

std::vector<const Block*> Blocks::largest_held() const {
  std::vector<const Block*> held;
  for (const auto& [at, block] : blocks_)
    if (block.state == Block::held) held.push_back(&block);
  std::ranges::stable_sort(held, std::greater<>(), &Block::size);
  return held;
}

}  // namespace bellows
