// The pool of small blocks: none is handed out twice.
#include "core/base/pool.h"
#include <gtest/gtest.h>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

using namespace bellows;

TEST(Pool, BlocksOfEverySizeAreAlignedAndApart) {
  std::set<char*> begins;
  std::vector<std::pair<char*, size_t>> blocks;
  for (size_t bytes = 1; bytes < 6000; bytes += 61) {
    char* const block = static_cast<char*>(small_block_allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignof(std::max_align_t), 0u);
    std::memset(block, int(bytes % 251), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (const auto& [block, bytes] : blocks) {
    EXPECT_EQ(block[0], char(bytes % 251));
    EXPECT_EQ(block[bytes - 1], char(bytes % 251));
    pool_release(block, bytes);
  }
}

TEST(Pool, BlocksMayBeFreedByAnotherThreadThanTheirMaker) {
  for (int round = 0; round < 20; ++round) {
    std::vector<void*> blocks;
    std::thread([&] {
      for (int i = 0; i < 100; ++i) blocks.push_back(small_block_allocate(200));
    }).join();
    EXPECT_EQ(std::set(blocks.begin(), blocks.end()).size(), 100u);
    for (void* block : blocks) pool_release(block, 200);
  }
}
