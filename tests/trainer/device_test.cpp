// Training on a GPU: equal to the CPU, captured equal to eager, and in the steady state without a
// wait, an allocation or a copy to or from the host.
#include "core/config/yaml.h"
#include "plan/toggle.h"
#include "tests/matchers.h"
#include "tests/moved.h"
#include "tests/on_device.h"
#include "tests/plans.h"
#include "tests/pooled_lenet.h"
#include "tests/refusal.h"
#include "tests/trainer/runs.h"

using namespace bellows;

namespace {

// Small enough for cuda_host. The model is pooled_lenet() unless `more` names another.
Plan small_lenet(Values more = {}) {
  if (!more.contains("model") && !more.contains("model.name")) more.merge(pooled_lenet());
  return plan_of(from_yaml(R"(
device: cuda
deterministic: on  # cuDNN's f32 gradients of weights may use atomics
data: {train_size: 32, test_size: 8, batch_size: 4}
optimizer.momentum: 0.9
schedule.name: cosine
log.every: 100
eval.every: 0
ckpt.every: 0
threads.threads: 1
)"),
                 more);
}
// All toggles that make a step fast on a GPU.
Plan fast(const Plan& plan) {
  return with_toggles(plan, {{"caching_allocator", "on"},
                             {"set_to_none", "on"},
                             {"fused_loss", "on"},
                             {"fused_optimizer", "on"},
                             {"sync_free_logging", "on"},
                             {"device_randperm", "on"},
                             {"device_tensors", "on"}});
}
Plan with(const Plan& plan, const char* toggle) {
  return switched(plan, *find_toggle(toggle), "on");
}

// Expects that the captured plan trains as the eager one does, bit for bit. Returns the latter.
Ran expect_same_captured(const Plan& eager) {
  const Ran want = run(eager), got = run(with(eager, "cuda_graph"));
  EXPECT_EQ(want.losses, got.losses);
  EXPECT_EQ(want.hash, got.hash);
  EXPECT_EQ(want.state.loss_scale, got.state.loss_scale);
  EXPECT_EQ(want.state.skipped, got.state.skipped);
  return want;
}

class TrainingOnDevice : public OnDevice<> {};

}  // namespace

TEST_F(TrainingOnDevice, FollowsTheCpu) {
  const Ran cpu = run(small_lenet({{"device", {"cpu"}}})), gpu = run(small_lenet());
  ASSERT_EQ(cpu.losses.size(), gpu.losses.size());
  for (size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_NEAR(cpu.losses[i], gpu.losses[i], 1e-3) << "update " << i + 1;
}

TEST_F(TrainingOnDevice, CapturedUpdateEqualsEagerBitForBit) {
  for (const char* const variant : {
           "train.epochs: 2",
           "optimizer.clip_norm: 0.5",
           "train.on_nonfinite: skip",
           "model: {name: mlp, hidden: [8], dropout: 0.5}",
           "loss: {name: sum, terms: [cross_entropy, l1]}",
           "{optimizer.clip_norm: 0.5, train.accumulate: 2}",
           "{data.train_size: 30, train.epochs: 2}",  // a part of a batch at the end
           // The graph holds the address of the rates; an evaluation rewrites the values there.
           "{train: {epochs: 3, max_iters: 0}, eval.every: 1, schedule: {name: plateau, patience: "
           "0, threshold: 1}, optimizer.groups: [{parameters: '*.bias', name: sgd}]}",
       }) {
    SCOPED_TRACE(variant);
    const Plan eager = fast(small_lenet(from_yaml(variant)));
    const Ran want = run(eager);
    const Moved replays("graph.replays"), fallbacks("kernel.fallbacks");
    const Ran got = run(with(eager, "cuda_graph"));
    EXPECT_EQ(want.losses, got.losses);
    EXPECT_EQ(want.hash, got.hash);
    EXPECT_EQ(fallbacks, 0) << "every captured plan has run before";
    EXPECT_GE(replays, 5);
  }
}

TEST_F(TrainingOnDevice, ASyncGuardNamesTheLineThatWaits) {
  Plan plan = fast(small_lenet({{"debug.sync_guard", {"error"}}}));
  plan.log.deferred = false;  // each loss is read at once
  EXPECT_THAT(refusal([&] { run(plan); }),
              testing::HasSubstr("the host waits for the device at trainer/session/losses.cpp:"));
}

// The host runs ahead, so it waits for steps and not for data.
TEST_F(TrainingOnDevice, TimeOfTheDeviceIsTimeOfSteps) {
  for (const bool resident : {true, false}) {
    SCOPED_TRACE(resident);
    Plan plan =
        with(with(fast(small_lenet({{"data.train_size", {"64"}}})), "pin_memory"), "non_blocking");
    plan.data.loader.feed.device_tensors = resident;
    const Meter meter = run(plan).meter;
    EXPECT_GT(meter.seconds(Phase::step), 0.8 * meter.total_seconds());
  }
}

// The loss scale starts so high that gradients overflow, and falls until they do not.
static const Values kOverflowing = {{"amp.dtype", {"fp16"}}, {"amp.scaler.init_scale", {"1e6"}}};

TEST_F(TrainingOnDevice, CapturedFp16UpdateSkipsAndScalesAsEagerDoes) {
  // A skipped update leaves running statistics as they were. A shortcut ends in a norm, after a
  // fork.
  Values normed = from_yaml(R"(
optimizer.lr: 0.01
model:
  name: layers
  layers:
    - {name: conv2d, out: 4, stride: 3}
    - batch_norm
    - relu
    - name: residual
      layers: [{name: conv2d, out: 8, padding: 1}, batch_norm]
      shortcut: [{name: conv2d, out: 8, kernel: 1}, batch_norm]
    - flatten
    - {name: linear, out: 10}
)");
  normed.insert(kOverflowing.begin(), kOverflowing.end());
  const Plan of_norms = fast(small_lenet(normed));
  for (const Plan& plan : {fast(small_lenet(kOverflowing)), of_norms,
                           with(with(of_norms, "fused_bn_act"), "fused_bn_add_act")}) {
    const Ran want = expect_same_captured(plan);
    EXPECT_GT(want.state.skipped, 0);
    EXPECT_GT(want.state.applied, 0);
  }
}

// An evaluation of the averages and a partial batch come between replays.
TEST_F(TrainingOnDevice, CapturedUpdateFindsTheCopiesThatTheLastOneWrote) {
  expect_same_captured(
      fast(small_lenet(from_yaml("{amp.dtype: bf16, data.train_size: 30, train.epochs: 2, "
                                 "eval.every: 1, optimizer.ema_decay: 0.7}"))));
}

TEST_F(TrainingOnDevice, AnEvaluationWaitsAsOftenForManyBatchesAsForFew) {
  std::vector<int64_t> counts;
  for (const char* const size : {"8", "24"}) {
    Session session(fast(small_lenet({{"data.test_size", {size}}})));
    const Kernels use(session.plan.kernels);
    evaluate(session);
    const Moved waits("sync.count");
    evaluate(session);
    counts.push_back(waits);
  }
  EXPECT_EQ(counts[0], counts[1]);
}

TEST_F(TrainingOnDevice, SteadyStepNeitherWaitsNorAllocatesNorCopies) {
  const char* const still[] = {"alloc.system_calls", "sync.count", "copy.h2d_bytes",
                               "copy.d2h_bytes", "graph.copied_input_bytes"};
  for (const int kind : {0, 1, 2, 3}) {
    const bool graph = kind & 1, fp16 = kind & 2;
    Values values = fp16 ? kOverflowing : Values();
    values["debug.sync_guard"] = {"error"};
    Plan plan = fast(small_lenet(values));
    if (graph) plan = with(plan, "cuda_graph");
    std::map<std::string, int64_t> warm, steady;
    run(plan, [&](const Position& at) {
      if (at.step == 4) warm = trace::counters();
      if (at.step == 7) steady = trace::counters();  // of 8: the last one ends a window
    });
    for (const char* name : still)
      EXPECT_EQ(steady[name], warm[name])
          << name << (graph ? ", captured" : "") << (fp16 ? ", fp16" : "");
    EXPECT_EQ(steady["graph.replays"] - warm["graph.replays"], graph ? 3 : 0);
    if (graph) {
      EXPECT_LE(steady["cuda.launches"] - warm["cuda.launches"], 3 * 8)
          << "besides the graph: the batch, and its loss";
    }
  }
}

// ---- device_augment

static const Values kMoved = from_yaml(R"(
data:
  transforms: [{name: random_crop, size: 28, padding: 3}, random_flip, cutout, normalize]
  train_size: 30  # a partial batch at the end
)");

TEST_F(TrainingOnDevice, AugmentedThereItIsAsFromTheHostBitForBit) {
  const Plan host = small_lenet(kMoved);
  Plan copied = with(with(with(host, "device_augment"), "pin_memory"), "non_blocking");
  copied.data.loader.workers.num_workers = 2;
  Plan fast_host = fast(host);  // its samples cannot stay on the device
  fast_host.train.accumulate = 2;
  const Plan resident = with(with(fast_host, "device_augment"), "cuda_graph");
  for (const auto& [from_host, on_device] : {std::pair(host, copied), {fast_host, resident}}) {
    const Ran want = run(from_host);
    const Moved augmented("augment.device_images");
    const Ran got = run(on_device);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_EQ(got.hash, want.hash);
    EXPECT_EQ(augmented, 30);
  }
  Session a(host), b(copied);
  EXPECT_EQ(evaluate(a).value("loss"), evaluate(b).value("loss"));
}

TEST_F(TrainingOnDevice, CapturedUpdateRefusesAnomalyDetection) {
  Plan plan = with(fast(small_lenet()), "cuda_graph");
  plan.debug.anomaly = true;
  EXPECT_THROW(run(plan), Error);
}
