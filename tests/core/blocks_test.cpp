// Blocks: the bookkeeping of device memory, without a device. Fit, split, merge, statistics.
#include "core/device/blocks.h"
#include <gtest/gtest.h>
#include <random>

using namespace bellows;

static constexpr size_t kMiB = 1 << 20;

// Fake addresses, never dereferenced.
static std::byte* address(size_t n) { return reinterpret_cast<std::byte*>(n * 64 * kMiB); }
static void* stream(size_t n) { return reinterpret_cast<void*>(n); }

static const BlockKey kSmallHome{.stream = stream(1), .small = true};
static const BlockKey kLargeHome{.stream = stream(1)};

static AllocatorStats stats_of(const Blocks& blocks) {
  AllocatorStats stats;
  blocks.fill_in(stats);
  return stats;
}

// A large block is split only if the rest is large too, a small one at any multiple of 512 bytes.
TEST(Blocks, SplitWhereTheRestIsWorthIt) {
  Blocks blocks;
  blocks.add(address(1), 12 * kMiB, kLargeHome);
  blocks.add(address(2), 2 * kMiB, kSmallHome);
  EXPECT_EQ(blocks.take(kLargeHome, 11 * kMiB)->size, 12 * kMiB);
  EXPECT_EQ(blocks.take(kSmallHome, 512)->size, 512u);
  EXPECT_EQ(blocks.take(kSmallHome, 1024)->at, address(2) + 512);
}

TEST(Blocks, CountWhatIsFreeInPieces) {
  Blocks blocks;
  blocks.add(address(1), 2 * kMiB, kSmallHome);
  blocks.add(address(2), 6 * kMiB, kLargeHome);
  EXPECT_DOUBLE_EQ(stats_of(blocks).fragmentation(), 0.25);
  blocks.take(kSmallHome, kMiB);
  EXPECT_EQ(stats_of(blocks).free, int64_t(7 * kMiB));
  EXPECT_DOUBLE_EQ(stats_of(Blocks()).fragmentation(), 0);
}

TEST(Blocks, GiveBackSegmentsThatAreFreeAsAWholeAndNoPools) {
  Blocks blocks;
  blocks.add(address(1), 2 * kMiB, kSmallHome);
  blocks.add(address(2), 2 * kMiB, kSmallHome);
  blocks.add(address(3), 2 * kMiB, {.pool = 7, .stream = stream(1), .small = true});
  Block* const held = blocks.take(kSmallHome, 512);
  const std::vector<Segment> idle = blocks.take_idle();
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].begin, address(2));
  EXPECT_EQ(blocks.take(kSmallHome, 2 * kMiB), nullptr) << "the pool's";
  blocks.join_common(7);
  EXPECT_EQ(blocks.take(kSmallHome, 2 * kMiB)->at, address(3)) << "everybody's now";
  EXPECT_EQ(blocks.give(*held).size, 2 * kMiB);
  EXPECT_EQ(blocks.take_idle().size(), 1u);
}

// A pool ends while one of its blocks is in use. On release, the block merges with the common
// memory around it.
TEST(Blocks, OfAPoolThatEndedComeBackLater) {
  Blocks blocks;
  const BlockKey pool{.pool = 3, .stream = stream(1), .small = true};
  blocks.add(address(1), 2 * kMiB, pool);
  Block* const held = blocks.take(pool, 512);
  blocks.join_common(3);
  EXPECT_EQ(blocks.give(*held).size, 2 * kMiB);
  EXPECT_EQ(blocks.take(pool, 512), nullptr);
  EXPECT_NE(blocks.take(kSmallHome, 512), nullptr);
}

// Random requests. Invariants: blocks never overlap, no byte is lost, and adjacent segments stay
// apart.
TEST(Blocks, NeverOverlapNorLoseAByte) {
  std::mt19937 dice(20240);
  Blocks blocks;
  std::map<std::byte*, Block*> held;
  size_t reserved = 0, in_use = 0, segments = 0;
  std::byte* next = address(1);
  for (int turn = 0; turn < 20000; ++turn) {
    if (dice() % 2 && !held.empty()) {
      const auto at = std::next(held.begin(), dice() % held.size());
      in_use -= at->second->size;
      blocks.give(*at->second);
      held.erase(at);
    } else {
      const size_t size = Blocks::rounded(dice() % (dice() % 8 ? kMiB : 24 * kMiB));
      const BlockKey home{.stream = stream(1 + dice() % 2), .small = size <= Blocks::kSmall};
      Block* block = blocks.take(home, size);
      if (!block) {
        blocks.add(next, Blocks::segment_size(size), home);
        next += Blocks::segment_size(size);
        reserved += Blocks::segment_size(size);
        ++segments;
        block = blocks.take(home, size);
      }
      ASSERT_GE(block->size, size);
      const auto after = held.lower_bound(block->at);
      ASSERT_TRUE(after == held.end() || block->at + block->size <= after->first);
      ASSERT_TRUE(after == held.begin() ||
                  std::prev(after)->first + std::prev(after)->second->size <= block->at);
      held[block->at] = block;
      in_use += block->size;
    }
    ASSERT_EQ(stats_of(blocks).free + in_use, reserved);
  }
  for (const auto& [at, block] : held) blocks.give(*block);
  size_t idle = 0;
  for (const Segment& segment : blocks.take_idle()) idle += segment.size, --segments;
  EXPECT_EQ(segments, 0u);
  EXPECT_EQ(idle, reserved) << "a segment did not become whole again";
}
