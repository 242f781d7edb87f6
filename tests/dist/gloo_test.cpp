// Collectives of the group `gloo` between ranks that are threads, over TCP and through shared
// memory, and what they report of ranks that are late, leave or do something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <thread>
#include "tests/dist/rank_threads.h"
#include "tests/moved.h"
#include "tests/variable.h"

using namespace bellows;
using testing::HasSubstr;

// Gloo does not free the list of interfaces that it searches for GLOO_SOCKET_IFNAME.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:gloo::transport::tcp::CreateDeviceAttr";
}

namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64};

// Element i of a rank; integers, whose sums are exact in every dtype.
double small_integer(int rank, int64_t i) { return double((i * 7 + rank * 3) % 17 - 8); }
// Not exact in 16 bits.
double noise(int rank, int64_t i) { return std::sin(double(i * 31 + rank * 17) * 0.37); }

template <class Value> Tensor values_of(DType dtype, int64_t n, const Value& value) {
  const Tensor t({n}, dtype);
  visit_dtype(dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) t.ptr<T>()[i] = convert<T>(value(i));
  });
  return t;
}
double at(const Tensor& t, int64_t i) {
  return visit_dtype(t.dtype(), [&]<class T>(T) { return convert<double>(t.ptr<T>()[i]); });
}
std::string bits_of(const Tensor& t) {
  return {reinterpret_cast<const char*>(t.bytes()), t.nbytes()};
}

enum class Over { tcp, memory };
RankThreads ranks_of(int world, Over over, const DistOptions& options = {}) {
  RankThreads ranks{.world = world, .options = options};
  ranks.backend_options = {{"shared_memory", {over == Over::memory ? "true" : "false"}}};
  return ranks;
}
std::string name_of(Over over) { return over == Over::tcp ? "Tcp" : "Memory"; }

class Gloo : public testing::TestWithParam<std::tuple<int, Over>> {
 protected:
  const int world = std::get<0>(GetParam());
  const RankThreads ranks = ranks_of(world, std::get<1>(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(Worlds, Gloo,
                         testing::Combine(testing::Values(2, 3, 4),
                                          testing::Values(Over::tcp, Over::memory)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), name_of(std::get<1>(info.param)));
                         });

// Tests of a fixed number of ranks.
class OverEither : public testing::TestWithParam<Over> {
 protected:
  RankThreads ranks_of(int world, const DistOptions& options = {}) const {
    return ::ranks_of(world, GetParam(), options);
  }
};
class GlooOfTwo : public OverEither {};
class GlooFailure : public OverEither {};
const auto either = testing::Values(Over::tcp, Over::memory);
std::string name_of_either(const testing::TestParamInfo<Over>& info) { return name_of(info.param); }
INSTANTIATE_TEST_SUITE_P(Either, GlooOfTwo, either, name_of_either);
INSTANTIATE_TEST_SUITE_P(Either, GlooFailure, either, name_of_either);

}  // namespace

// As one process does: in f32 or f64, rounded once to the element. Any values of two ranks give its
// bits; of more ranks, whose order of additions is another, integers.
TEST_P(Gloo, ReducesEveryDTypeAndSize) {
  const auto values = [&](DType dtype, int64_t n, int rank) {
    return values_of(dtype, n, [&](int64_t i) {
      return world == 2 && dtype != DType::i64 ? noise(rank, i) : small_integer(rank, i);
    });
  };
  const auto expected = [&](DType dtype, int64_t n, Reduction reduction) {
    const Tensor sum({n}, dtype);
    visit_dtype(dtype, [&]<class T>(T) {
      using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, Acc<T>>;
      std::vector<Sum> sums(n);
      for (int r = 0; r < world; ++r) {
        const Tensor part = values(dtype, n, r);
        for (int64_t i = 0; i < n; ++i) sums[i] += Sum(part.ptr<T>()[i]);
      }
      for (int64_t i = 0; i < n; ++i)
        sum.ptr<T>()[i] = T(reduction == Reduction::mean ? sums[i] / Sum(world) : sums[i]);
    });
    return sum;
  };
  expect_no_errors(ranks.run([&](ProcessGroup& group) {
    for (const DType dtype : kDTypes)
      for (const int64_t n : {0, 1, 7, 100'003})
        for (const Reduction reduction : {Reduction::sum, Reduction::mean}) {
          if (dtype == DType::i64 && reduction == Reduction::mean) continue;
          const Tensor t = values(dtype, n, group.rank());
          group.all_reduce(t, reduction, "t").wait();
          ASSERT_EQ(bits_of(t) == bits_of(expected(dtype, n, reduction)), true)
              << dtype << " " << n << " " << name_of(reduction);
        }
  }));
}

// Larger than two segments of Gloo's ring for each rank.
TEST_P(Gloo, ReducesLargeTensorsToTheSameBitsEveryTimeAndOnEveryRank) {
  std::vector<std::string> results(size_t(world) * 2);
  expect_no_errors(ranks.run([&](ProcessGroup& group) {
    for (int round = 0; round < 2; ++round) {
      const Tensor t =
          values_of(DType::f32, 2'500'001, [&](int64_t i) { return noise(group.rank(), i); });
      group.all_reduce(t, Reduction::mean, "t").wait();
      results[group.rank() * 2 + round] = bits_of(t);
      double mean = 0;
      for (int r = 0; r < group.world(); ++r) mean += noise(r, 123'456) / group.world();
      EXPECT_NEAR(at(t, 123'456), mean, 1e-6);
    }
  }));
  for (const std::string& result : results) EXPECT_EQ(result == results[0], true);
}

TEST_P(Gloo, GathersByRankOnAllAndAtTheRootWhichScattersAndBroadcasts) {
  expect_no_errors(ranks.run([&](ProcessGroup& group) {
    const int64_t n = 20'011;  // more than a chunk of shared memory
    const int root = world - 1;
    for (const DType dtype : kDTypes) {
      const auto value = [&](int64_t i) { return i % n % 50 + i / n; };
      const Tensor mine = values_of(dtype, n, [&](int64_t i) { return value(i) + group.rank(); });
      const Tensor all({world * n}, dtype), expected = values_of(dtype, world * n, value);
      group.all_gather(mine, all, "gather").wait();
      EXPECT_EQ(bits_of(all) == bits_of(expected), true) << dtype;
      const Tensor at_root = group.rank() == root ? Tensor({world * n}, dtype) : Tensor();
      group.gather(mine, at_root, root, "gather");
      EXPECT_TRUE(!at_root.defined() || bits_of(at_root) == bits_of(expected)) << dtype;
      const Tensor part({n}, dtype);
      group.scatter(at_root, part, root, "scatter");
      EXPECT_EQ(bits_of(part) == bits_of(mine), true) << dtype;
      const Tensor shared = group.rank() == root ? expected : Tensor({world * n}, dtype);
      group.broadcast(shared, root, "broadcast").wait();
      EXPECT_EQ(bits_of(shared) == bits_of(all), true) << dtype;
    }
  }));
}

TEST_P(Gloo, RunsWhatWasStartedInOrderAndWaitsInAnyOrder) {
  expect_no_errors(ranks.run([&](ProcessGroup& group) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int64_t i = 0; i < 20; ++i) {
      tensors.push_back(full({1 + i * 100}, double(i)));
      works.push_back(group.all_reduce(tensors.back(), Reduction::mean, cat("bucket ", i)));
    }
    group.barrier("all");
    for (int64_t i = 19; i >= 0; --i) {
      works[i].wait();
      EXPECT_EQ(at(tensors[i], i * 100), i);
    }
  }));
}

TEST_P(GlooOfTwo, CountsCollectivesAndTheirBytes) {
  const Moved collectives("dist.collectives"), bytes("dist.bytes"), shared("dist.shared_bytes");
  expect_no_errors(ranks_of(2).run(
      [&](ProcessGroup& group) { group.all_reduce(full({1000}, 1), Reduction::sum, "t").wait(); }));
  EXPECT_EQ(collectives, 4);  // two ranks: the barrier at the start, and this
  EXPECT_EQ(bytes, 8000);
  EXPECT_EQ(shared, GetParam() == Over::memory ? 8000 : 0);
}

TEST_P(GlooOfTwo, RefusesTensorsThatItCannotReduce) {
  alignas(8) std::byte memory[64];
  const Ref<Storage> on_gpu(new Storage(memory, sizeof memory, Device::cuda, nullptr));
  expect_no_errors(ranks_of(2).run([&](ProcessGroup& group) {
    const auto reduce = [&](const Tensor& t, Reduction reduction) {
      return refusal([&] { group.all_reduce(t, reduction, "bucket 2"); });
    };
    EXPECT_THAT(reduce(Tensor(on_gpu, {4}, DType::f32), Reduction::sum),
                HasSubstr("bucket 2: the tensor is on cuda, and this group takes tensors on cpu"));
    EXPECT_THAT(reduce(Tensor({4}, DType::u8), Reduction::sum), HasSubstr("got u8"));
    EXPECT_THAT(reduce(Tensor({4}, DType::i64), Reduction::mean), HasSubstr("i64 has no mean"));
    EXPECT_THAT(reduce(full({4, 4}, 0).view({4, 2}, {4, 1}, 0), Reduction::sum),
                HasSubstr("needs a dense tensor"));
    EXPECT_THAT(refusal([&] { group.all_gather(full({2}, 0), full({5}, 0), "metrics"); }),
                HasSubstr("metrics: 5 f32 are not 2 times 2 f32"));
    group.barrier("it lives");
  }));
}

TEST(GlooMeshTest, ListensOnTheInterfaceOfTheEnvironment) {
  const RankThreads two = ranks_of(2, Over::tcp);
  const Variable loopback("GLOO_SOCKET_IFNAME", "lo");
  expect_no_errors(two.run([&](ProcessGroup& group) { group.barrier("b"); }));
  const Variable unknown("GLOO_SOCKET_IFNAME", "nosuch0");
  for (const Refusal& error : two.run([](ProcessGroup&) {})) {
    EXPECT_THAT(error.message, HasSubstr("check GLOO_SOCKET_IFNAME='nosuch0'"));
    EXPECT_EQ(error.exit, Exit::distributed);
  }
}

TEST_P(GlooOfTwo, IsRefusedInAWorldOfOne) {
  EXPECT_THAT(refusal([&] { ranks_of(1).group_of(0); }), HasSubstr("dist.backend: auto"));
}

// A rank whose part of the last collective is done may leave before the others have noticed.
TEST_P(GlooFailure, IsNoneWhenRanksLeaveOneByOne) {
  for (int round = 0; round < 5; ++round)
    expect_no_errors(ranks_of(4).run([](ProcessGroup& group) {
      const Tensor t = full({300'000}, 1);
      group.all_reduce(t, Reduction::sum, "last").wait();
      EXPECT_EQ(at(t, 7), 4);
    }));
}

// ---- ranks that are late, leave, or differ

TEST_P(GlooFailure, NamesTheRankThatDoesNotConnect) {
  const RankThreads ranks = ranks_of(3, {.timeout_s = 2});
  std::thread second([&] { refusal([&] { ranks.group_of(1); }); });
  const Refusal error = refused([&] { ranks.group_of(0); });
  second.join();
  EXPECT_THAT(error.message, HasSubstr("rank 2 did not connect within 2 s"));
  EXPECT_EQ(error.exit, Exit::distributed);
}

// Rank 1 lives, but computes.
TEST_P(GlooFailure, NamesTheRankThatComesTooLate) {
  const RankThreads ranks = ranks_of(3, {.timeout_s = 2});
  std::atomic<int> failed = 0;
  const auto errors = ranks.run([&](ProcessGroup& group) {
    group.step = 12;
    if (group.rank() == 1) {
      for (int i = 0; failed < 2 && i < 4000; ++i) std::this_thread::sleep_for(Timeout(5));
      group.barrier("too late");
    }
    const auto begin = std::chrono::steady_clock::now();
    const Tensor t = full({100'000}, 1);
    const std::string first =
        refusal([&] { group.all_reduce(t, Reduction::sum, "bucket 3").wait(); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, Timeout(6000));
    ++failed;
    const std::string second = refusal([&] { group.barrier("end"); });
    EXPECT_EQ(first, second);  // the group is dead
    EXPECT_THAT(group.flight_report(),
                HasSubstr("collective 2, step 12: all_reduce (sum) of 100000 "
                          "f32: bucket 3 (400000 bytes); started"));
    EXPECT_THAT(group.flight_report(), HasSubstr("not done"));
    fail(Exit::distributed, first);
  });
  for (const int rank : {0, 2})
    EXPECT_THAT(errors[rank].message,
                HasSubstr("gloo: step 12, bucket 3: rank 1 did not come within 2 s; "));
  EXPECT_EQ(errors[1].exit, Exit::distributed);
}

TEST_P(GlooFailure, ReportsTheCauseOfARankThatAborts) {
  const auto errors = ranks_of(4).run([](ProcessGroup& group) {
    group.step = 7;
    if (group.rank() == 2) {
      group.abort("disk full");
      EXPECT_THAT(refusal([&] { group.barrier("later"); }), HasSubstr("disk full"));
      return;
    }
    const Tensor t = full({1'000'000}, 1);
    for (;;) group.all_reduce(t, Reduction::mean, "bucket 1").wait();
  });
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(errors[rank].message, "gloo: step 7, bucket 1: rank 2 left in step 7: disk full");
    EXPECT_EQ(errors[rank].exit, Exit::distributed);
  }
}

TEST_P(GlooFailure, ReportsARankThatLeavesWithoutACause) {
  const auto errors = ranks_of(3).run([](ProcessGroup& group) {
    if (group.rank() == 0) return;
    const Tensor t = full({100}, 1);
    group.all_reduce(t, Reduction::mean, "bucket 1").wait();
  });
  for (const int rank : {1, 2})
    EXPECT_THAT(errors[rank].message, HasSubstr("gloo: bucket 1: rank 0 left and gave no cause"));
}

TEST_P(GlooFailure, FindsRanksThatStartDifferentCollectives) {
  for (const auto& different : {std::pair("bucket 2", 100), std::pair("bucket 1", 101)}) {
    const auto errors = ranks_of(3, {.check_collectives = true}).run([&](ProcessGroup& group) {
      const auto [what, n] = group.rank() == 2 ? different : std::pair("bucket 1", 100);
      group.barrier("both");
      group.all_reduce(full({n}, 1), Reduction::sum, what).wait();
    });
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(errors[rank].message,
                  HasSubstr(cat("the ranks differ in collective 3: rank 0 started \"all_reduce "
                                "(sum) of 100 f32: bucket 1\", rank 2 \"all_reduce (sum) of ",
                                different.second, " f32: ", different.first, "\"")));
      EXPECT_EQ(errors[rank].exit, Exit::distributed);
    }
  }
}

TEST_P(GlooFailure, ChecksEqualCollectivesWithoutFillingTheStore) {
  const auto store = std::make_shared<MemoryStore>();
  RankThreads ranks = ranks_of(2, {.check_collectives = true});
  ranks.store = store;
  std::atomic<size_t> before = 0;
  expect_no_errors(ranks.run([&](ProcessGroup& group) {
    for (int i = 0; i < 20; ++i) {
      group.all_reduce(full({10}, 1), Reduction::sum, "t").wait();
      if (i == 4 && group.rank() == 0) before = store->size();
    }
  }));
  EXPECT_LE(store->size(), before + 4);
}
