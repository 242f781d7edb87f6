// Autotuning: the fastest candidate wins, is kept on disk, and is not searched for again.
#include "core/tensor/autotune.h"
#include "core/base/check.h"
#include "core/base/disk_cache.h"
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"
#include "core/tensor/tuned_kernel.h"
#include "tests/matchers.h"
#include "tests/temp_folder.h"
#include "tests/variable.h"

using namespace bellows;
using testing::Optional;

namespace {

// Busy-waits for `us` microseconds.
void spin(int64_t us) {
  for (const int64_t begin = trace::now_ns(); trace::now_ns() - begin < us * 1000;) {
  }
}
Candidate slow(const std::string& name, int64_t us, int64_t workspace_bytes = 0) {
  return {name, workspace_bytes, [us] { spin(us); }};
}
// Like slow(), and counts its runs.
Candidate counting(int64_t us, int& runs) {
  return {"counting", 0, [us, &runs] {
            ++runs;
            spin(us);
          }};
}
Candidate broken(const std::string& name) {
  return {name, 0, [] { fail(Exit::memory, "no memory for this one"); }};
}

int64_t count(const char* name) { return trace::counter(cat("autotune.", name)).value(); }

constexpr KernelOptions kBenchmark{.autotune = Autotune::benchmark};
constexpr KernelOptions kFound{.autotune = Autotune::found};

}  // namespace

TEST(Fastest, IsByTheMedianAndOfEqualsTheOneWithTheSmallestWorkspace) {
  const TimedCandidate a{4, 1000, {2, 2, 2}}, b{5, 10, {2.015, 9, 2.001}}, c{6, 500, {2.01, 2, 1}};
  const TimedCandidate slower{7, 0, {2.03, 2.03, 1}};
  EXPECT_THAT(winner({a, b, c, slower}), Optional(5));
  EXPECT_THAT(winner({a, slower}), Optional(4));
  EXPECT_EQ(winner({}), std::nullopt);
}

TEST(Fastest, LeavesOutWhatFailsAndWhatWantsTooMuchMemory) {
  const Kernels use({.workspace_mb = 1});
  const int64_t too_much = (1 << 20) + 1;
  EXPECT_THAT(fastest(Device::cpu, {broken("a"), slow("b", 10, too_much), slow("c", 900)}),
              Optional(2));
  EXPECT_EQ(fastest(Device::cpu, {broken("a"), slow("b", 10, too_much)}), std::nullopt);
  const Candidate starved{"starved", 0, [] { throw std::bad_alloc(); }};
  EXPECT_THAT(fastest(Device::cpu, {starved, slow("c", 900)}), Optional(1));
  EXPECT_EQ(fastest(Device::cpu, {}), std::nullopt);
}

// A hopeless candidate may take minutes per run. Other load may disturb a measurement, so one
// success in ten attempts is enough.
TEST(Fastest, RunsWhatIsHopelessNoMoreOftenThanToWarmItUp) {
  bool given_up = false, gone_on_with = false;
  for (int attempt = 0; attempt < 10 && !(given_up && gone_on_with); ++attempt) {
    int fast = 0, twice = 0, hopeless = 0;
    EXPECT_THAT(fastest(Device::cpu, {counting(10000, hopeless), counting(500, fast)}),
                Optional(1));
    EXPECT_GE(fast, 3 + 5);
    given_up |= hopeless == 3;
    fastest(Device::cpu, {counting(1000, twice), counting(500, fast)});
    gone_on_with |= twice >= 3 + 5;
  }
  EXPECT_TRUE(given_up);
  EXPECT_TRUE(gone_on_with) << "twice as slow after a warm-up may still win";
}

TEST(Fastest, IsNotGivenUpForOneSlowRun) {
  int runs = 0;
  const Candidate stalls{"stalls", 0, [&runs] { spin(++runs == 3 ? 50000 : 100); }};
  EXPECT_THAT(fastest(Device::cpu, {stalls, slow("slow", 900)}), Optional(0));
}

// ---- stored results

class TuningTest : public testing::Test {
 protected:
  // Tunes candidates a, b and c, where `best` is the fastest. Candidates not in `there` are
  // missing.
  std::optional<size_t> make(Tuning& tuning, const std::string& best,
                             const std::string& there = "abc",
                             const std::string& problem = "a problem") {
    const auto find = [&](const std::string& name) {
      Candidates candidates;
      for (const char letter : there)
        if (name.empty() || name == std::string(1, letter))
          candidates.push_back(slow({letter}, best[0] == letter ? 20 : 400));
      return candidates;
    };
    return tuning.make(Device::cpu, problem, find, cache);
  }

  const TempFolder folder;
  DiskCache cache{folder.path};
};

TEST_F(TuningTest, SearchesAProblemOnceAndCountsWhereItWasFoundLater) {
  Tuning off, first, again, later, other;
  const int64_t hits = count("hits"), misses = count("misses"), searches = count("searches");
  const int64_t kept = count("kept"), repeated = count("repeated");
  EXPECT_FALSE(off.due());
  EXPECT_EQ(count("misses"), misses);
  const Kernels use(kBenchmark);
  EXPECT_TRUE(first.due());
  EXPECT_THAT(make(first, "c"), Optional(2));
  EXPECT_FALSE(first.due());
  EXPECT_EQ(count("hits"), hits + 1);
  make(again, "c");  // the same problem in another layer
  EXPECT_EQ(count("repeated"), repeated + 1);
  EXPECT_EQ(count("kept"), kept);
  cache = DiskCache(folder.path);  // as in another run
  EXPECT_THAT(make(later, "a"), Optional(0)) << "of the one that was found";
  EXPECT_EQ(count("kept"), kept + 1);
  EXPECT_EQ(count("searches"), searches + 1);
  make(other, "a", "abc", "another problem");
  EXPECT_EQ(count("searches"), searches + 2);
}

TEST_F(TuningTest, GivesBackWhatOnlyTheSearchTookFromTheSystem) {
  const Kernels use(kBenchmark);
  configure_allocator(Device::cpu, {.caching = true});
  const int64_t before = allocator_stats(Device::cpu).reserved;
  const auto find = [](const std::string&) {
    const auto fills = [](int64_t mb) { return [mb] { fill(Tensor({mb << 18}, DType::f32), 1); }; };
    return Candidates{{"large", 0, fills(32)}, {"larger", 0, fills(48)}};
  };
  Tuning tuning;
  EXPECT_TRUE(tuning.make(Device::cpu, "a problem with workspaces", find, cache));
  EXPECT_EQ(allocator_stats(Device::cpu).reserved, before);
  configure_allocator(Device::cpu, {});
}

TEST_F(TuningTest, WhatIsKeptAndGoneIsIgnoredWithANotice) {
  const Kernels use(kBenchmark);
  Tuning first, second, third;
  make(first, "c");
  testing::internal::CaptureStderr();
  EXPECT_THAT(make(second, "b", "ab"), Optional(1));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: plans of an earlier run are stale and ignored, such as c\n");
  EXPECT_THAT(make(third, "a", "ab"), Optional(0)) << "the new one is kept";
}

// ---- kernels

namespace {

using Op = Tensor(const Tensor& x, Slot& slot);
constinit TunedKernel<Op> tuned{"tuned_in_a_test"};

template <int64_t us, int answer> Tensor answers(const Tensor& x, Slot&) {
  spin(us);
  return full({}, answer, x);
}
bool is_small(const Tensor& x, Slot&) { return x.numel() < 100; }
bool any(const Tensor&, Slot&) { return true; }

double answer(int64_t numel, Slot& slot, const KernelOptions& options) {
  const Kernels use(options);
  return tuned(Tensor(Shape{numel}, DType::f32), slot).item();
}

}  // namespace

class TunedAlgorithms : public testing::Test {
 protected:
  enum { plain, vendor, small, other };
  static void SetUpTestSuite() {
    tuned.on(Device::cpu, answers<300, plain>);
    tuned.vendor_on(Device::cpu, answers<100, vendor>);
    tuned.algorithm_on(Device::cpu, "small", is_small, answers<30, small>);
    tuned.algorithm_on(Device::cpu, "other", any, answers<200, other>);
  }

  const TempFolder caches;
  const Variable place{"XDG_CACHE_HOME", caches.path.c_str()};
};

TEST_F(TunedAlgorithms, RunsTheFastestThatFitsAndIsAllowed) {
  Slot slot;
  EXPECT_EQ(answer(10, slot, {}), plain);
  EXPECT_EQ(answer(10, slot, {.vendor = true}), vendor);
  EXPECT_EQ(answer(10, slot, kBenchmark), small);
  EXPECT_EQ(answer(1000, slot, kBenchmark), other) << "another shape, for which one does not fit";
  EXPECT_EQ(answer(1000, slot, {.vendor = true, .autotune = Autotune::benchmark}), vendor);
  EXPECT_EQ(
      answer(1000, slot, {.vendor = true, .autotune = Autotune::benchmark, .deterministic = true}),
      other)
      << "the vendor's bits are not the same for any number of threads";
  const int64_t searches = count("searches"), misses = count("misses");
  EXPECT_EQ(answer(10, slot, kFound), small) << "what was found";
  EXPECT_EQ(answer(20, slot, kFound), plain) << "what was not";
  EXPECT_EQ(count("searches"), searches);
  EXPECT_EQ(count("misses"), misses + 1);
}

// A library that has changed may have become slower, and a stored plan is the best only among the
// candidates that it was measured against.
TEST_F(TunedAlgorithms, TriesAgainWithAnotherVersionOfALibraryAndAmongOtherCandidates) {
  static constinit TunedKernel<Op> changing{"changing_in_a_test"};
  static std::string first = "1", second = "1";
  const auto searches_of = [](int wanted) {
    const Kernels use({.vendor = true, .autotune = Autotune::benchmark});
    const int64_t before = count("searches");
    Slot slot;  // as of another layer or another run
    EXPECT_EQ(changing(Tensor(Shape{10}, DType::f32), slot).item(), wanted);
    return count("searches") - before;
  };
  changing.on(Device::cpu, answers<900, plain>);
  changing.vendor_on(Device::cpu, answers<100, vendor>, {.version = [] { return first; }});
  changing.algorithm_on(Device::cpu, "other", any, answers<500, other>, [] { return second; });
  EXPECT_EQ(searches_of(vendor), 1);
  EXPECT_EQ(searches_of(vendor), 0) << "found on disk";
  for (std::string* version : {&first, &second}) {
    *version = "2";
    EXPECT_EQ(searches_of(vendor), 1);
    EXPECT_EQ(searches_of(vendor), 0);
  }
  changing.algorithm_on(Device::cpu, "small", is_small, answers<10, small>);
  EXPECT_EQ(searches_of(small), 1);
  EXPECT_EQ(searches_of(small), 0);
}
