// The pool of small blocks and reference counts: nothing leaks, nothing is freed twice.
#include "core/base/pool.h"
#include <gtest/gtest.h>
#include <cstring>
#include <set>
#include <thread>
#include <vector>
#include "core/base/ref.h"

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

namespace {
struct Counted : RefCounted {
  explicit Counted(int& alive) : alive(alive) { ++alive; }
  ~Counted() { --alive; }
  int& alive;
};
}  // namespace

TEST(Ref, FreesWithTheLastHandle) {
  int alive = 0;
  Ref<Counted> a(new Counted(alive));
  {
    const Ref<Counted> b = a;
    EXPECT_EQ(a->references(), 2);
    Ref<Counted> c = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(c->references(), 2);
    a = c;
    const Ref<Counted>& same = a;
    a = same;  // to itself
    EXPECT_EQ(c->references(), 3);
  }
  EXPECT_EQ(a->references(), 1);
  EXPECT_EQ(alive, 1);
  a = {};
  EXPECT_EQ(alive, 0);
}

TEST(Ref, CountsAcrossThreads) {
  int alive = 0;
  const Ref<Counted> shared(new Counted(alive));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([shared] {
      for (int i = 0; i < 10'000; ++i) const Ref<Counted> copy = shared;
    });
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(shared->references(), 1);
}
