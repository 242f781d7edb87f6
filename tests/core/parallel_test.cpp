// parallel_for and parallel_sum: chunks and bits do not depend on the number of threads.
#include "core/device/parallel.h"
#include <gtest/gtest.h>
#include <immintrin.h>
#include <array>
#include <cmath>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "tests/refusal.h"
#include "tests/variable.h"

using namespace bellows;

namespace {
// Uses n threads during its lifetime.
class Pool {
 public:
  explicit Pool(int n) { omp_set_num_threads(n); }
  ~Pool() { omp_set_num_threads(before_); }
  Pool(Pool&&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};
}  // namespace

class Threads : public testing::TestWithParam<int> {
  const Pool pool_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(OneToEight, Threads, testing::Range(1, 9));

TEST_P(Threads, RunsInOneThreadInsideAnotherRegion) {
  std::atomic<int> ran{0}, elsewhere{0};
  parallel_for(4, 1, [&](int64_t, int64_t) {
    const int outer = worker_index();
    parallel_for(8, 1, [&](int64_t, int64_t) {
      ++ran;
      elsewhere += worker_index() != outer;
    });
  });
  EXPECT_EQ(ran, 32);
  EXPECT_EQ(elsewhere, 0);
}

// An exception that leaves a worker would end the process. The first chunk's is kept.
TEST_P(Threads, WhatAChunkThrowsReachesTheCaller) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::atomic<int> ran{0};
    const auto body = [&](int64_t chunk, int64_t) {
      ++ran;
      if (chunk == 2 || chunk == 13) fail(Exit::memory, "chunk ", chunk);
    };
    EXPECT_EQ(complaint(Exit::memory, [&] { parallel_for(16, 1, body); }), "chunk 2");
    EXPECT_EQ(ran, GetParam() == 1 ? 3 : 16);
  }
}

// Terms of very different sizes: another order of addition would give other bits.
static double sum_of_terms() {
  const Philox rng({.seed = 9});
  return parallel_sum(100'003, 1000, [&](int64_t b, int64_t e) {
    double sum = 0;
    for (int64_t i = b; i < e; ++i) sum += std::exp(20 * double(rng.normal(i)));
    return sum;
  });
}

static std::vector<double> foreach_and_random_numbers() {
  const Tensor a({100'003}, DType::f32), b({100'003}, DType::f32), uniform({50'001}, DType::f64);
  fill_normal(a, 0, 1, {.seed = 1});
  fill_normal(b, 0, 1000, {.seed = 2});
  fill_uniform(uniform, 0, 1, {.seed = 1});
  add_into(a, b, 0.1);
  std::vector<double> all = {norm_of({&b, 1}).item()};
  all.insert(all.end(), a.data<float>().begin(), a.data<float>().end());
  all.insert(all.end(), uniform.data<double>().begin(), uniform.data<double>().end());
  const Tensor order = randperm(50'001, {.seed = 1}, Device::cpu);
  all.insert(all.end(), order.data<int64_t>().begin(), order.data<int64_t>().end());
  return all;
}

TEST_P(Threads, ResultsHaveTheBitsOfOneThread) {
  const double sum = sum_of_terms();
  const std::vector<double> all = foreach_and_random_numbers();
  omp_set_num_threads(1);
  EXPECT_EQ(sum, sum_of_terms());
  EXPECT_EQ(all, foreach_and_random_numbers());
}

// A chunk that cannot go on keeps no other chunk waiting, not even those of its thread's share.
TEST(Workers, ChunksThatNoThreadHasBegunGoToThoseThatAreFree) {
  const Pool pool(2);
  restart_workers({});
  std::atomic<bool> begun{false};
  std::atomic<int> others{0};
  parallel_for(8, 1, [&](int64_t, int64_t) {
    if (worker_index() == 1 && !begun.exchange(true)) {
      while (others < 7) std::this_thread::yield();
      return;
    }
    while (!begun) std::this_thread::yield();
    ++others;
  });
  EXPECT_EQ(others, 7);
  EXPECT_EQ(worker_count(), 1);
}

TEST(Workers, ComputeWithTheModesOfTheCaller) {
  const Pool pool(3);
  const unsigned before = _mm_getcsr();
  for (const unsigned modes : {before | _MM_FLUSH_ZERO_ON, before}) {
    _mm_setcsr(modes);
    std::atomic<int> different{0};
    for (int region = 0; region < 100; ++region)
      parallel_for(30, 1, [&](int64_t, int64_t) { different += _mm_getcsr() != modes; });
    EXPECT_EQ(different, 0);
  }
  _mm_setcsr(before);
}

TEST(Workers, CallWhatTheyWereRestartedWithBeforeTheirFirstChunk) {
  const Pool pool(4);
  std::mutex mutex;
  std::multiset<int> started;
  restart_workers([&](int worker) {
    const std::lock_guard lock(mutex);
    started.insert(worker);
  });
  EXPECT_EQ(worker_count(), 0);
  parallel_for(4, 1, [](int64_t, int64_t) {});
  EXPECT_EQ(started, (std::multiset<int>{1, 2, 3}));
  EXPECT_EQ(worker_ids().size(), 3u);
  restart_workers({});
}

// R: running or ready to run; S: asleep.
static char state_of(long thread) {
  std::string status;
  std::getline(std::ifstream(cat("/proc/self/task/", thread, "/stat")), status);
  return status.at(status.rfind(')') + 2);
}

TEST(Workers, SleepInsteadOfSpinningWhileALibraryComputes) {
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "a worker spins on a core of its own";
  const Pool pool(2);
  const Variable endless("GOMP_SPINCOUNT", "1000000000000");
  restart_workers({});
  for (int region = 0; region < 2; ++region) {
    parallel_for(2, 1, [](int64_t, int64_t) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(state_of(worker_ids().front()), 'R');
    rest_workers();
    for (int tries = 0; tries < 1000 && state_of(worker_ids().front()) != 'S'; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(state_of(worker_ids().front()), 'S');
  }
  restart_workers({});
}

TEST(Workers, RegionsOfTwoThreadsAtOnceRunEachChunkOnce) {
  const auto count_chunks = [](std::atomic<int>& ran) {
    const Pool pool(3);
    for (int region = 0; region < 500; ++region)
      parallel_for(7, 1, [&](int64_t, int64_t) { ++ran; });
  };
  std::atomic<int> here{0}, there{0};
  std::thread other([&] { count_chunks(there); });
  count_chunks(here);
  other.join();
  EXPECT_EQ(here, 3500);
  EXPECT_EQ(there, 3500);
}

TEST(Workers, EachChunkRunsOnceInRegionsOfAnySizeAndThreadCount) {
  for (int region = 0; region < 3000; ++region) {
    const Pool pool(1 + region % 5);
    std::array<std::atomic<int>, 23> ran{};
    const int chunks = 1 + region % 23;
    parallel_for(chunks, 1, [&](int64_t c, int64_t) { ++ran[static_cast<size_t>(c)]; });
    for (int c = 0; c < chunks; ++c) ASSERT_EQ(ran[static_cast<size_t>(c)], 1);
  }
}
