// The reducer on ranks that are threads, against one rank with the batches of all. That the joint
// batch gives the same parameters: tests/trainer/ranks_test.cpp.
#include "dist/reducer.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <chrono>
#include <thread>
#include "autograd/recompute.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/matmul/linear.h"
#include "tests/dist/thread_ranks.h"
#include "tests/optim/trained.h"
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

// ---- a small net, and its training

constexpr int64_t kRows = 4;  // of a micro-batch

struct Net {
  explicit Net(uint64_t seed = 1) {
    const int64_t sizes[] = {20, 16, 12, 10};
    for (uint64_t i = 0; i < 3; ++i) {
      add(cat("w", i), {sizes[i + 1], sizes[i]}, seed + 2 * i);
      add(cat("b", i), {sizes[i + 1]}, seed + 2 * i + 1);
    }
  }
  void add(const std::string& name, const Shape& shape, uint64_t seed) {
    parameters.push_back({name, require_grad(normal(shape, DType::f32, seed))});
  }
  const Tensor& at(size_t i) const { return parameters[i].tensor; }
  Tensor loss(const Tensor& x, const Tensor& y, bool recomputed = false) const {
    const auto hidden = [this](const Tensor& in) {
      return relu(linear(relu(linear(in, at(0), at(1))), at(2), at(3)));
    };
    const Tensor h = recomputed ? recompute(hidden, x, {{at(0), at(1), at(2), at(3)}}) : hidden(x);
    return cross_entropy(linear(h, at(4), at(5)), y);
  }
  Tensors leaves() const {
    Tensors all;
    for (const NamedTensor& p : parameters) all.push_back(p.tensor);
    return all;
  }
  std::vector<float> values() const {
    std::vector<float> all;
    for (const Tensor& t : leaves())
      all.insert(all.end(), t.ptr<float>(), t.ptr<float>() + t.numel());
    return all;
  }
  NamedTensors parameters;
};

struct Training {
  DistOptions dist = {.ddp = true};
  int world = 2, accumulate = 1, updates = 4;
  bool set_to_none = true, recomputed = false;
  int broken = 1;  // update in which rank 1 has a batch that is not finite
};

// Rows of a rank in a micro-batch.
Tensor images(const Training& t, int update, int micro, int rank) {
  const Tensor x = normal({kRows, 20}, DType::f32, 1000 + 100 * update + 10 * micro + rank);
  if (update == t.broken && rank == 1) x.ptr<float>()[0] = INFINITY;
  return x;
}
Tensor labels() { return tensor_of<int64_t>({1, 7, 3, 3}, {kRows}); }

Optimizer optimizer(const Net& net, const Training& t) {
  OptimizerOptions options = sgd_options({{"momentum", "0.9"}, {"weight_decay", "0.01"}});
  options.clip_norm = 1;
  options.skip_nonfinite = true;
  options.set_to_none = t.set_to_none;
  return {options, net.parameters, rates({0.3, 0.2, 0.1})};
}

// One rank of a run, as in trainer/session/training_step.cpp. Every rank begins with other values.
std::vector<float> train(ThreadGroup& group, const Training& t) {
  const Net net(group.rank() == 0 ? 1 : 77);
  Optimizer opt = optimizer(net, t);
  Reducer reducer(group, t.dist, net.parameters, {});
  DeviceStepState state(Device::cpu);
  for (int update = 0; update < t.updates; ++update) {
    for (int micro = 0; micro < t.accumulate; ++micro) {
      const auto quiet = reducer.no_sync(micro + 1 < t.accumulate);
      const Tensor x = images(t, update, micro, group.rank());
      backward(net.loss(x, labels(), t.recomputed), {.seed = 1.0 / t.accumulate});
    }
    if (reducer.wait()) opt.step(state);
    reducer.end_update(state);
    opt.zero_grad();
  }
  EXPECT_EQ(state.read().skipped, t.broken < t.updates ? 1 : 0);
  return net.values();
}

std::vector<float> train_on_ranks(const Training& t) {
  std::vector<std::vector<float>> values(t.world);
  on_ranks(t.world, [&](ThreadGroup& group) { values[group.rank()] = train(group, t); });
  for (const auto& other : values) EXPECT_EQ(other, values[0]) << "ranks differ";
  return values[0];
}

// One rank that has the batches of all, and adds their gradients in the order of the ranks.
std::vector<float> train_alone(const Training& t) {
  const Net net;
  const Tensors leaves = net.leaves();
  Optimizer opt = optimizer(net, t);
  DeviceStepState state(Device::cpu);
  for (int update = 0; update < t.updates; ++update) {
    Tensors sums(leaves.size());
    for (int rank = 0; rank < t.world; ++rank) {
      zero_grad(leaves, true);
      for (int micro = 0; micro < t.accumulate; ++micro)
        backward(net.loss(images(t, update, micro, rank), labels()), {.seed = 1.0 / t.accumulate});
      for (size_t i = 0; i < leaves.size(); ++i)
        rank == 0 ? void(sums[i] = clone(grad(leaves[i]))) : add_into(sums[i], grad(leaves[i]));
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      for (float& value : sums[i].data<float>()) value /= float(t.world);
      set_grad(leaves[i], sums[i]);
    }
    opt.step(state);
    opt.zero_grad();
  }
  return net.values();
}

// Largest difference, relative to 1 or to the value.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(double(a[i]))));
  return most;
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

// ---- the same parameters as one rank

TEST(Reducer, TrainsLikeOneRankUnderAllOptions) {
  for (const int world : {2, 3})
    for (const int accumulate : {1, 2}) {
      const Training alone{.world = world, .accumulate = accumulate};
      const std::vector<float> expected = train_alone(alone);
      EXPECT_GT(distance(expected, Net().values()), 1e-3) << "nothing was learned";
      for (int bits = 0; bits <= kAll; ++bits)
        for (const bool set_to_none : {false, true}) {
          Training t = alone;
          t.dist = options_of(bits);
          t.set_to_none = set_to_none;
          const std::vector<float> values = train_on_ranks(t);
          const std::string what = cat(text_of(t.dist), ", ranks ", world, ", N ", accumulate,
                                       ", set_to_none ", set_to_none);
          if (accumulate == 1 || t.dist.no_sync)
            ASSERT_EQ(values, expected) << what;
          else
            ASSERT_LT(distance(values, expected), 1e-5) << what;
        }
    }
}

// dp: rank 0 alone updates. Its state tells the other ranks of the update that it skipped.
TEST(Reducer, TrainsLikeOneRankWithoutDdp) {
  for (const int world : {2, 3})
    for (const bool set_to_none : {false, true}) {
      Training t{.world = world, .accumulate = 2, .set_to_none = set_to_none};
      const std::vector<float> expected = train_alone(t);
      t.dist = options_of(kAll);
      t.dist.ddp = false;
      auto counted = moved([&] { EXPECT_LT(distance(train_on_ranks(t), expected), 1e-6); });
      EXPECT_EQ(counted["dist.buckets"], 0);
      EXPECT_EQ(counted["dist.root_bytes"], 2 * std::ssize(expected) * 4 * (world - 1) * t.updates)
          << "all gradients to rank 0, and all parameters from it";
    }
}

TEST(Reducer, CountsTheWaitForASlowerRank) {
  for (const bool ddp : {true, false}) {
    auto counted = moved([&] {
      on_ranks(2, [&](ThreadGroup& group) {
        const Net net;
        Reducer reducer(group, {.ddp = ddp}, net.parameters, {});
        backward(net.loss(images({}, 0, 0, group.rank()), labels()));
        if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        reducer.wait();
      });
    });
    EXPECT_GT(counted["dist.exposed_wait_ns"], 50'000'000)
        << "ddp " << ddp;  // rank 0 may begin late
  }
}

// Their gradients become ready together, when backward has run the segment again.
TEST(Reducer, TrainsAlikeWithRecomputedSegments) {
  for (const int accumulate : {1, 2}) {
    Training t{.dist = options_of(kAll), .accumulate = accumulate};
    const std::vector<float> expected = train_on_ranks(t);
    t.recomputed = true;
    auto counted = moved([&] { EXPECT_EQ(train_on_ranks(t), expected); });
    EXPECT_EQ(counted["recompute.replays"], t.world * t.accumulate * t.updates);
  }
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
      Training t{.accumulate = 3, .broken = 9};
      t.dist = options_of(kAll);
      t.dist.bucketed = bucketed;
      t.dist.no_sync = no_sync;
      const int64_t buckets = bucketed ? 3 : 6, runs = t.updates * t.world;
      auto counted = moved([&] { train_on_ranks(t); });
      const int64_t sent = runs * buckets * (no_sync ? 1 : 3);
      EXPECT_EQ(counted["dist.buckets"], sent);
      EXPECT_EQ(counted["dist.early_buckets"], sent);
      EXPECT_EQ(counted["dist.skipped_allreduces"], no_sync ? runs * buckets * 2 : 0);
      EXPECT_EQ(counted["dist.bucketed_grads"] > 0, bucketed);
    }
}

// Without views they are copied: the suite of toggles compares.
TEST(Reducer, CopiesNoGradientIntoViews) {
  for (const bool set_to_none : {false, true}) {
    Training t{.dist = options_of(kAll), .set_to_none = set_to_none, .broken = 9};
    t.dist.first_bucket_mb = t.dist.bucket_mb = 1;  // one bucket
    t.dist.rebuild = false;
    auto counted = moved([&] { train_on_ranks(t); });
    EXPECT_EQ(counted["dist.grad_copy_bytes"], 0);
    EXPECT_EQ(counted["grad.place_copy_bytes"], 0);
    EXPECT_EQ(counted["dist.view_grads"], 6 * t.updates * t.world);
  }
}

TEST(Reducer, SendsHalfTheBytesIfCompressed) {
  DistOptions options = options_of(kAll);
  const auto bytes_with = [&](bool compress) {
    options.compress = compress;
    int64_t bytes = 0;
    on_ranks(2, [&](ThreadGroup& group) {
      const Net net;
      Reducer reducer(group, options, net.parameters, {});
      const int64_t before = group.bytes;
      reducer.wait();
      if (group.rank() == 0) bytes = group.bytes - before;
    });
    return bytes;
  };
  options.rebuild = false;
  int64_t whole = 0;
  EXPECT_EQ(moved([&] { whole = bytes_with(false); })["dist.compressed_bytes"], 0);
  EXPECT_EQ(moved([&] { EXPECT_EQ(bytes_with(true) * 2, whole); })["dist.compressed_bytes"], whole);
}

// ---- when buckets leave

// An op between two layers looks how much has left when backward comes by.
TEST(Reducer, SendsBucketsDuringBackwardOnlyWithOverlap) {
  for (const bool overlap : {false, true})
    on_ranks(2, [&](ThreadGroup& group) {
      DistOptions options{.ddp = true};
      options.overlap = overlap;
      const Tensor w = leaf(), v = leaf(), u = leaf();
      Reducer reducer(group, options, named({w, v, u}), {});
      Names gone;
      const Tensor early = record("look", full({}, 0), {loss_of({w})}, [&](const Tensor& dy) {
        gone = buckets_in(group);
        return Grads{dy};
      });
      backward(record("sum", full({}, 0), {early, loss_of({u, v})}, [](const Tensor& dy) {
        return Grads{dy, dy};
      }));
      EXPECT_EQ(gone, overlap ? (Names{"bucket 0 (c)", "bucket 1 (b)"}) : Names());
      EXPECT_EQ(buckets_in(group).size(), overlap ? 3u : 0u);
      reducer.wait();
      EXPECT_EQ(buckets_in(group).size(), 3u);
      EXPECT_THAT(gradients({w, v, u}), ElementsAre(3, 3, 3));
    });
}

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

TEST(Reducer, SendsSumsOfMicroBatchesOnce) {
  on_ranks(2, [](ThreadGroup& group) {
    for (const bool views : {false, true}) {
      DistOptions options = options_of(kAll);
      options.views = views;
      const Tensor u = leaf(), v = leaf(), w = leaf();
      const std::vector<Tensor> leaves = {u, v, w};
      Reducer reducer(group, options, named(leaves), {});
      for (int update = 0; update < 3; ++update) {
        const size_t before = buckets_in(group).size();
        for (const bool last : {false, false, true}) {
          const auto quiet = reducer.no_sync(!last);
          backward(loss_of(last ? std::vector<Tensor>{u} : leaves, group.rank() + 1));
          EXPECT_TRUE(last || buckets_in(group).size() == before);
        }
        reducer.wait();
        EXPECT_THAT(gradients(leaves), ElementsAre(4.5, 3, 3)) << "update " << update;
        zero_grad(leaves, true);
      }
    }
  });
}

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
