// Counters, and hashes of module paths.
#include "core/base/trace.h"
#include <gtest/gtest.h>
#include <set>
#include <thread>
#include "core/base/check.h"
#include "core/base/module_path.h"

using namespace bellows;

TEST(Counter, CountsFromManyThreads) {
  trace::Counter& sum = trace::counter("test.sum");
  trace::Counter& peak = trace::counter("test.peak");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10'000; ++i) sum.add(), peak.raise_to(i * 4 + t);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.value(), 40'000);
  EXPECT_EQ(peak.value(), 39'999);
  peak.raise_to(5);
  EXPECT_EQ(peak.value(), 39'999) << "a peak never falls";
}

TEST(ModulePath, HashesPathsThatDifferInOneLetterFarApart) {
  std::set<uint64_t> upper;
  for (int i = 0; i < 100; ++i) upper.insert(site_of(cat("layer", i, ".weight")).hash >> 32);
  EXPECT_EQ(upper.size(), 100u);
}
