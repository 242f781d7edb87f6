// The reducer on ranks that are threads: its collectives, and the gradients of single updates under
// all options. That ranks train the parameters of one rank: tests/trainer/ranks_test.cpp with
// processes, tests/toggles/ranks_test.cpp toggle by toggle.
#include "dist/reducer.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <chrono>
#include <thread>
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/matmul/linear.h"
#include "ops/reduce.h"
#include "tests/dist/thread_ranks.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;

namespace {

// Returns by how much each counter moves in body().
std::map<std::string, int64_t> moved(const std::function<void()>& body) {
  auto before = trace::counters();
  body();
  auto after = trace::counters();
  for (auto& [name, value] : after) value -= before[name];
  return after;
}

// Bit i of `bits` switches option i. Buckets hold a few of the net's gradients.
DistOptions options_of(int bits) {
  DistOptions options{.ddp = true};
  bool DistOptions::*const flags[] = {&DistOptions::bucketed, &DistOptions::overlap,
                                      &DistOptions::rebuild, &DistOptions::views,
                                      &DistOptions::no_sync};
  for (int i = 0; i < 5; ++i) options.*flags[i] = bits >> i & 1;
  options.first_bucket_mb = 0.0005;
  options.bucket_mb = 0.0015;
  return options;
}
constexpr int kAll = 31;
std::string text_of(const DistOptions& o) {
  return cat("bucketed ", o.bucketed, ", overlap ", o.overlap, ", rebuild ", o.rebuild, ", views ",
             o.views, ", no_sync ", o.no_sync);
}

// ---- leaves whose gradients become ready in a known order

Tensor leaf(double value = 1, int64_t n = 2) { return require_grad(full({n}, value)); }

// Sum of factor * w over the leaves. Their gradients become ready in the order of the list.
Tensor loss_of(const std::vector<Tensor>& leaves, double factor = 3) {
  Tensors terms;
  for (size_t i = leaves.size(); i-- > 0;)
    terms.push_back(
        record("scaled", full({}, 0), {leaves[i]},
               [shape = leaves[i].shape(), dtype = leaves[i].dtype(), factor](const Tensor& dy) {
                 return Grads{full(shape, factor * dy.item(), dtype)};
               }));
  return record("sum", full({}, 0), std::span<const Tensor>(terms),
                [n = terms.size()](const Tensor& dy) { return Grads(n, dy); });
}
NamedTensors named(const std::vector<Tensor>& leaves) {
  NamedTensors all;
  for (const Tensor& t : leaves) all.push_back({std::string(1, char('a' + all.size())), t});
  return all;
}
std::vector<double> gradients(const std::vector<Tensor>& leaves) {
  std::vector<double> all;
  for (const Tensor& t : leaves) all.push_back(cast(grad(t), DType::f64).ptr<double>()[0]);
  return all;
}
Names buckets_in(const ThreadGroup& group) {
  Names names;
  for (const std::string& what : group.started)
    if (what.starts_with("bucket")) names.push_back(what);
  return names;
}

}  // namespace

// ---- averages

// The last micro-batch does not reach all parameters.
TEST(Reducer, AveragesSumsOfMicroBatchesUnderAllOptions) {
  for (const int world : {2, 3})
    for (int bits = 0; bits <= kAll; ++bits)
      for (const bool set_to_none : {false, true})
        on_ranks(world, [&](ThreadGroup& group) {
          const DistOptions options = options_of(bits);
          const std::vector<Tensor> leaves = {leaf(1, 150), leaf(1, 150), leaf(1, 150)};
          Reducer reducer(group, options, named(leaves), {});
          for (int update = 0; update < 3; ++update) {
            const size_t before = buckets_in(group).size();
            for (const bool last : {false, false, true}) {
              const auto quiet = reducer.no_sync(!last);
              backward(loss_of(last ? std::vector{leaves[0]} : leaves, group.rank() + 1));
              EXPECT_TRUE(last || !options.no_sync || buckets_in(group).size() == before);
            }
            reducer.wait();
            const double mean = 0.5 * (world + 1);
            EXPECT_THAT(gradients(leaves), ElementsAre(3 * mean, 2 * mean, 2 * mean))
                << text_of(options) << ", ranks " << world << ", update " << update;
            zero_grad(leaves, set_to_none);
          }
        });
}

// dp: rank 0 alone updates, and sends its parameters and its state.
TEST(Reducer, WithoutDdpRankZeroAveragesAndUpdates) {
  for (const int world : {2, 3}) {
    auto counted = moved([&] {
      on_ranks(world, [&](ThreadGroup& group) {
        DistOptions options = options_of(kAll);
        options.ddp = false;
        const std::vector<Tensor> leaves = {leaf(), leaf()};
        Reducer reducer(group, options, named(leaves), {});
        DeviceStepState state(Device::cpu);
        for (int update = 1; update <= 2; ++update) {
          for (const bool last : {false, true}) {
            const auto quiet = reducer.no_sync(!last);
            backward(loss_of(leaves, group.rank() + 1));
          }
          EXPECT_EQ(reducer.wait(), group.rank() == 0);
          if (group.rank() == 0) {
            EXPECT_THAT(gradients(leaves), testing::Each(testing::DoubleNear(world + 1, 1e-6)));
            fill(leaves[0], update);
            state.write({.skipped = update});
          }
          reducer.end_update(state);
          EXPECT_EQ(leaves[0].data<float>()[1], update);
          EXPECT_EQ(state.read().skipped, update);
          zero_grad(leaves, true);
        }
      });
    });
    EXPECT_EQ(counted["dist.buckets"], 0);
    EXPECT_EQ(counted["dist.root_bytes"], 2 * 2 * 16 * (world - 1))
        << "all gradients to rank 0, and all parameters from it";
  }
}

TEST(Reducer, CountsTheWaitForASlowerRank) {
  for (const bool ddp : {true, false}) {
    auto counted = moved([&] {
      on_ranks(2, [&](ThreadGroup& group) {
        const Tensor w = leaf();
        Reducer reducer(group, {.ddp = ddp}, named({w}), {});
        backward(loss_of({w}));
        if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        reducer.wait();
      });
    });
    EXPECT_GT(counted["dist.exposed_wait_ns"], 50'000'000)
        << "ddp " << ddp;  // rank 0 may begin late
  }
}

// Their gradients become ready together, when backward has run the segment again.
TEST(Reducer, AveragesGradientsOfRecomputedSegments) {
  auto counted = moved([] {
    on_ranks(2, [](ThreadGroup& group) {
      const std::vector<Tensor> leaves = {leaf(2), leaf(3), leaf(5)};
      Reducer reducer(group, options_of(kAll), named(leaves), {});
      const Tensor x = full({2}, group.rank() + 1);
      for (const bool last : {false, true}) {
        const auto quiet = reducer.no_sync(!last);
        const auto segment = [&](const Tensor& in) { return mul(mul(in, leaves[0]), leaves[1]); };
        const Tensor hidden = recompute(segment, x, std::span(leaves).first(2));
        backward(sum(mul(hidden, leaves[2])));
      }
      reducer.wait();
      EXPECT_THAT(gradients(leaves), ElementsAre(2 * 1.5 * 15, 2 * 1.5 * 10, 2 * 1.5 * 6));
    });
  });
  EXPECT_EQ(counted["recompute.replays"], 2 * 2);
}

TEST(Reducer, BeginsWithParametersAndBuffersOfRankZero) {
  on_ranks(3, [](ThreadGroup& group) {
    const double mine = group.rank() + 1;
    const Tensor w = leaf(mine), mean = full({3}, mine),
                 count = tensor_of<int64_t>({group.rank()}, {1});
    const Tensor images({2, 3, 2, 2}, DType::f32, Device::cpu, kNHWC);
    fill(images, mine);
    const Tensor filters = require_grad(images);
    const uint32_t before = w.storage()->version;
    const Reducer reducer(group, {.ddp = true}, {{"w", w}, {"f", filters}},
                          {{"mean", mean}, {"n", count}});
    EXPECT_EQ(w.data<float>()[1], 1);
    EXPECT_EQ(filters.ptr<float>()[23], 1);
    EXPECT_EQ(mean.data<float>()[2], 1);
    EXPECT_EQ(count.data<int64_t>()[0], 0);
    EXPECT_GT(w.storage()->version, before) << "copies of the old values would be used";
  });
}

// ---- what it costs

TEST(Reducer, CostsNothingInAWorldOfOne) {
  const auto group = DistOptions().backend.make(GroupContext());
  const Tensor w = leaf();
  const auto before = trace::counters();
  Reducer reducer(*group, options_of(kAll), {{"w", w}}, {});
  EXPECT_FALSE(leaf_of(w).hook);
  for (const bool last : {false, true}) {
    const auto quiet = reducer.no_sync(!last);
    backward(loss_of({w}));
  }
  reducer.wait();
  EXPECT_EQ(grad(w).data<float>()[1], 6);
  EXPECT_FALSE(leaf_of(w).grad_place.defined());
  for (const auto& [name, value] : trace::counters())
    if (name.starts_with("dist.")) {
      EXPECT_EQ(value, before.contains(name) ? before.at(name) : 0) << name;
    }
}

TEST(Reducer, SendsOneCollectivePerBucketAndUpdate) {
  for (const bool bucketed : {false, true})
    for (const bool no_sync : {false, true}) {
      DistOptions options = options_of(kAll);
      options.bucketed = bucketed;
      options.no_sync = no_sync;
      auto counted = moved([&] {
        on_ranks(2, [&](ThreadGroup& group) {
          std::vector<Tensor> leaves;
          for (int i = 0; i < 6; ++i) leaves.push_back(leaf(1, 100));
          Reducer reducer(group, options, named(leaves), {});
          for (int update = 0; update < 2; ++update) {
            for (const bool last : {false, false, true}) {
              const auto quiet = reducer.no_sync(!last);
              backward(loss_of(leaves));
            }
            reducer.wait();
            zero_grad(leaves, true);
          }
        });
      });
      const int64_t of_a_pass = 2 * 2 * (bucketed ? 3 : 6);
      EXPECT_EQ(counted["dist.buckets"], of_a_pass * (no_sync ? 1 : 3));
      EXPECT_EQ(counted["dist.early_buckets"], of_a_pass * (no_sync ? 1 : 3));
      EXPECT_EQ(counted["dist.skipped_allreduces"], no_sync ? of_a_pass * 2 : 0);
      EXPECT_EQ(counted["dist.bucketed_grads"] > 0, bucketed);
    }
}

// Without views they are copied: the suite of toggles compares.
TEST(Reducer, CopiesNoGradientIntoViews) {
  for (const bool set_to_none : {false, true}) {
    auto counted = moved([&] {
      on_ranks(2, [&](ThreadGroup& group) {
        DistOptions options = options_of(kAll);
        options.first_bucket_mb = options.bucket_mb = 1;  // one bucket
        options.rebuild = false;
        const std::vector<Tensor> leaves = {require_grad(full({10, 20}, 1)), leaf(1, 10)};
        Reducer reducer(group, options, named(leaves), {});
        for (int update = 0; update < 3; ++update) {
          const Tensor y = linear(full({4, 20}, update), leaves[0], leaves[1]);
          backward(cross_entropy(y, tensor_of<int64_t>({1, 7, 3, 3}, {4})));
          reducer.wait();
          zero_grad(leaves, set_to_none);
        }
      });
    });
    EXPECT_EQ(counted["dist.grad_copy_bytes"], 0);
    EXPECT_EQ(counted["grad.place_copy_bytes"], 0);
    EXPECT_EQ(counted["dist.view_grads"], 2 * 2 * 3);
  }
}

TEST(Reducer, SendsHalfTheBytesIfCompressed) {
  int64_t sent[2] = {}, compressed[2] = {};
  for (const bool compress : {false, true}) {
    DistOptions options = options_of(kAll);
    options.compress = compress;
    options.rebuild = false;
    auto counted = moved([&] {
      on_ranks(2, [&](ThreadGroup& group) {
        Reducer reducer(group, options, named({leaf(1, 200), leaf(1, 100)}), {});
        const int64_t before = group.bytes;
        reducer.wait();
        if (group.rank() == 0) sent[compress] = group.bytes - before;
      });
    });
    compressed[compress] = counted["dist.compressed_bytes"];
  }
  EXPECT_EQ(sent[1] * 2, sent[0]);
  EXPECT_THAT(compressed, ElementsAre(0, 2 * sent[1]));
}

// ---- when buckets leave

// ThreadGroup fails if ranks start collectives in different orders.
TEST(Reducer, SendsBucketsInOneOrderWhateverBecomesReadyFirst) {
  on_ranks(3, [](ThreadGroup& group) {
    DistOptions options{.ddp = true};
    options.overlap = true;
    const Tensor a = leaf(), b = leaf(), c = leaf();
    Reducer reducer(group, options, named({a, b, c}), {});
    const std::vector<Tensor> orders[] = {{a, b, c}, {c, a, b}, {b, c, a}};
    backward(loss_of(orders[group.rank()], group.rank() + 1));
    reducer.wait();
    EXPECT_THAT(buckets_in(group), ElementsAre("bucket 0 (c)", "bucket 1 (b)", "bucket 2 (a)"));
    EXPECT_THAT(gradients({a, b, c}), ElementsAre(2, 2, 2));
  });
}

TEST(Reducer, RebuildsBucketsInTheOrderOfReadinessOfRankZero) {
  on_ranks(3, [](ThreadGroup& group) {
    DistOptions options = options_of(kAll);
    options.first_bucket_mb = 0.001;
    const Tensor a = leaf(), b = leaf(), c = leaf(), idle = leaf();
    const std::vector<Tensor> leaves = {a, b, c, idle};
    Reducer reducer(group, options, named(leaves), {});
    for (int update = 0; update < 3; ++update) {
      const std::vector<Tensor> orders[] = {{b, a, c}, {c, b, a}, {a, c, b}};
      backward(loss_of(orders[group.rank()], group.rank() + 1));
      reducer.wait();
      EXPECT_THAT(gradients(leaves), ElementsAre(2, 2, 2, 0));
      const auto expected =
          update == 0 ? std::vector<Tensor>{idle, c, b, a} : std::vector<Tensor>{b, a, c, idle};
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(grad(expected[i]).storage(), grad(a).storage());
        EXPECT_EQ(grad(expected[i]).offset(), 16 * i) << "update " << update;
      }
      zero_grad(leaves, true);
    }
  });
}

// ---- micro-batches

TEST(Reducer, LeavesDryRunsAlone) {
  for (const bool no_sync : {false, true})
    on_ranks(2, [&](ThreadGroup& group) {
      DistOptions options = options_of(kAll);
      options.no_sync = no_sync;
      options.find_unused = true;
      const Tensor w = leaf(), v = leaf();
      Reducer reducer(group, options, named({w, v}), {});
      {
        const auto alone = reducer.pause();
        backward(loss_of({w, v}));
      }
      zero_grad(std::vector<Tensor>{w, v}, true);
      EXPECT_EQ(buckets_in(group), Names());
      for (const bool last : {false, true}) {
        const auto quiet = reducer.no_sync(!last);
        backward(loss_of({w}));
      }
      reducer.wait();
      EXPECT_THAT(gradients({w, v}), ElementsAre(6, 0));
      EXPECT_EQ(reducer.take_messages().size(), 1u);
    });
}

TEST(Reducer, RefusesAGradientWhoseBucketHasLeft) {
  on_ranks(2, [](ThreadGroup& group) {
    const Tensor w = leaf();
    Reducer reducer(group, options_of(kAll), named({w}), {});
    backward(loss_of({w}));
    // Else the refused backward adds to a bucket that the other rank is still reducing.
    group.barrier("both have sent");
    EXPECT_THAT(
        refusal([&] { backward(loss_of({w})); }),
        testing::HasSubstr("reducer: backward reached a again after bucket 0 (a) had left"));
    reducer.wait();
  });
}

// ---- gradients that are missing

TEST(Reducer, SendsZerosForWhatBackwardDidNotReach) {
  for (int bits = 0; bits <= kAll; ++bits) {
    const auto run = [&] {
      on_ranks(2, [&](ThreadGroup& group) {
        DistOptions options = options_of(bits);
        options.find_unused = true;
        const Tensor a = leaf(), b = leaf(), c = leaf();
        const std::vector<Tensor> leaves = {a, b, c};
        Reducer reducer(group, options, named(leaves), {});
        group.step = 1;
        for (int update = 0; update < 3; ++update) {
          const std::vector<Tensor> used[] = {{a, b}, {b}};
          backward(loss_of(used[group.rank()], 2));
          reducer.wait();
          EXPECT_THAT(gradients(leaves), ElementsAre(1, 2, 0)) << text_of(options);
          const Names messages = reducer.take_messages();
          const char* const first[] = {
              "dist.find_unused: rank 0, step 1: backward did not reach c",
              "dist.find_unused: rank 1, step 1: backward did not reach a, c"};
          EXPECT_EQ(messages, update == 0 ? Names{first[group.rank()]} : Names());
          zero_grad(leaves, true);
        }
      });
    };
    EXPECT_EQ(moved(run)["dist.unused_gradients"], 9) << "1 and 2 in each of 3 updates";
  }
}

// A world of one does so too, so weight decay acts there as on several ranks.
TEST(Reducer, CountsAGradientThatIsMissingOrZeroAsUnused) {
  for (const int world : {1, 2}) {
    const auto run = [&] {
      on_ranks(world, [&](ThreadGroup& group) {
        DistOptions options = options_of(kAll);
        options.find_unused = true;
        const std::vector<Tensor> leaves = {leaf(), leaf()};
        Reducer reducer(group, options, named(leaves), {});
        backward(loss_of(leaves));
        reducer.wait();
        zero_grad(leaves, world == 1);
        EXPECT_EQ(reducer.take_messages(), Names());
        backward(loss_of({leaves[0]}));
        reducer.wait();
        EXPECT_EQ(reducer.take_messages().size(), 1u);
        EXPECT_THAT(gradients(leaves), ElementsAre(3, 0));
      });
    };
    EXPECT_EQ(moved(run)["dist.unused_gradients"], world);
  }
}

// ---- types and ends

TEST(Reducer, PutsGradientsOf16BitsIntoBucketsOf16Bits) {
  on_ranks(2, [](ThreadGroup& group) {
    const Tensor w = leaf(), low = require_grad(full({40}, 1, DType::bf16));
    Reducer reducer(group, options_of(kAll), {{"w", w}, {"low", low}}, {});
    const int64_t before = group.bytes;
    backward(loss_of({low, w}, group.rank() + 1));
    reducer.wait();
    EXPECT_EQ(grad(low).dtype(), DType::bf16);
    EXPECT_THAT(gradients({w, low}), ElementsAre(1.5, 1.5));
    EXPECT_EQ(group.bytes - before, 64 + 128 + 16) << "2 f32, 40 bf16, order of readiness";
    EXPECT_EQ(buckets_in(group).size(), 2u);
  });
}

TEST(Reducer, LeavesNeitherHookNorPlaceBehind) {
  on_ranks(2, [](ThreadGroup& group) {
    const Tensor w = leaf();
    { const Reducer reducer(group, options_of(kAll), named({w}), {}); }
    EXPECT_FALSE(leaf_of(w).hook);
    EXPECT_FALSE(leaf_of(w).grad_place.defined());
    backward(loss_of({w}));
    EXPECT_EQ(buckets_in(group), Names());
  });
}
