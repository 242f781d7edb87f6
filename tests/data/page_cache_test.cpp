// PageCache keeps pages while there is room, and only one thread reads a page.
#include "data/packed/page_cache.h"
#include <gmock/gmock.h>
#include <thread>
#include "tests/data/files.h"

using namespace bellows;

namespace {
struct Counted {
  explicit Counted(int64_t bytes) : cache(bytes) {}
  // Returns a page of ten bytes, each equal to its number.
  std::shared_ptr<const PageCache::Page> get(int64_t number) {
    return cache.get(number, 10, [&](PageCache::Page& page) {
      ++reads;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::ranges::fill(page, uint8_t(number));
    });
  }
  PageCache cache;
  std::atomic<int> reads = 0;
};
}  // namespace

TEST(PageCache, DropsWhatWasUsedLongestAgo) {
  Counted pages(30);
  for (const int64_t number : {1, 2, 3, 1, 2, 3}) EXPECT_EQ((*pages.get(number))[9], number);
  EXPECT_EQ(pages.reads, 3);
  pages.get(1);
  pages.get(4);  // evicts 2
  EXPECT_EQ(pages.reads, 4);
  for (const int64_t number : {1, 3, 4}) pages.get(number);
  EXPECT_EQ(pages.reads, 4);
  pages.get(2);
  EXPECT_EQ(pages.reads, 5);
}

TEST(PageCache, APageOutlivesItsPlaceWhileItIsHeld) {
  Counted pages(10);
  const auto first = pages.get(1);
  pages.get(2);
  EXPECT_EQ(*first, PageCache::Page(10, 1));
  pages.get(1);
  EXPECT_EQ(pages.reads, 3);
}

TEST(PageCache, OneThatIsLargerThanTheCacheIsReadAllTheSame) {
  Counted pages(5);
  EXPECT_EQ((*pages.get(1))[0], 1);
  EXPECT_EQ((*pages.get(1))[0], 1);
  EXPECT_EQ(pages.reads, 1) << "the last one stays";
}

TEST(PageCache, WhatCouldNotBeReadIsTriedAgain) {
  PageCache cache(30);
  EXPECT_EQ(
      complaint(Exit::data, [&] { cache.get(1, 4, [](auto&) { fail(Exit::data, "no disk"); }); }),
      "no disk");
  EXPECT_EQ(cache.get(1, 4, [](auto& page) { page[0] = 7; })->at(0), 7);
}

TEST(PageCache, ThreadsThatWantTheSamePageReadItOnce) {
  Counted pages(100);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 400; ++i) wrong += (*pages.get((i + t) % 10))[3] != (i + t) % 10;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pages.reads, 10);
}
