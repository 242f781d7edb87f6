// Parts of a session in this process: metrics of an evaluation, the window of autotuning, the
// average of a model and groups of parameters, and what device_augment hands to a model.
#include <cstring>
#include "tests/matchers.h"
#include "tests/moved.h"
#include "tests/optim/trained.h"
#include "tests/trainer/runs.h"
#include "trainer/session/evaluate.h"
#include "trainer/state/training_state.h"

using namespace bellows;

TEST(Evaluate, ComputesTheMetricsOfTheListAndTheTermsOfTheLoss) {
  const Plan plan = load(Plan{}, from_yaml(R"(
device: cpu
data: {train_size: 8, test_size: 21, batch_size: 8}
model: {name: mlp, hidden: [16]}
eval.metrics: [mean_absolute_error, {name: top_k, k: 2}]
loss: {name: sum, terms: [mse, {name: l1, weight: 0.5}]}
ckpt.best: mean_absolute_error
)"));
  Session session(plan);
  const Metrics metrics = evaluate(session);
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics.values) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"mean_absolute_error", "accuracy_top2", "loss",
                                             "loss.mse", "loss.l1"}));
  EXPECT_NEAR(metrics.value("loss"), metrics.value("loss.mse") + metrics.value("loss.l1") / 2,
              1e-6);
  EXPECT_NEAR(metrics.value("loss.l1"), metrics.value("mean_absolute_error"), 1e-6);
  EXPECT_FALSE(higher_is_better(plan, "mean_absolute_error"));
  EXPECT_TRUE(higher_is_better(plan, "accuracy_top2"));
}

// LeNet has two convolutions; the first needs no gradient of its images: five problems. The last
// batch of an epoch is smaller and comes after the window.
TEST(TuningWindow, SearchesEachProblemOnceAndLeavesLaterShapesToTheHeuristic) {
  Session session(load(Plan{}, from_yaml(R"(
data: {train_size: 60, test_size: 20, batch_size: 9}
train: {max_iters: 9, epochs: 2, tuning_window: [2, 4]}
eval.every: 0
threads.threads: 1
kernels.autotune: benchmark
)")));
  const Moved searches("autotune.searches"), misses("autotune.misses");
  std::vector<int64_t> searched, missed;  // so far, after each update
  run(session, [&](const Position&) {
    searched.push_back(searches);
    missed.push_back(misses);
  });
  EXPECT_THAT(searched, ElementsAre(0, 5, 5, 5, 5, 5, 5, 5, 5));
  EXPECT_THAT(missed, ElementsAre(0, 0, 0, 0, 0, 0, 5, 5, 5));
}

namespace {

// Six updates per epoch, for a model that also has a buffer.
Plan normed_plan(const Values& more) {
  return plan_of(from_yaml(R"(
device: cpu
data: {train_size: 48, test_size: 20, batch_size: 8}
model.name: layers
model.layers: [flatten, {name: linear, out: 16}, batch_norm, {name: linear, out: 10}]
train.epochs: 2
eval.every: 0
)"),
                 more);
}

NamedTensors values_of(const Session& session) {
  NamedTensors all = session.parameters;
  for (const NamedTensor& buffer : session.model->buffers()) all.push_back(buffer);
  return snapshot(all);
}

}  // namespace

// Also the buffers. Updates that are skipped are in skipped_test.cpp.
TEST(Average, FollowsEachUpdateOfALoop) {
  constexpr float kDecay = 0.75;
  Session session(normed_plan({{"optimizer.ema_decay", {"0.75"}}}));
  NamedTensors wanted = values_of(session);
  run(session, [&](const Position&) {
    const NamedTensors now = values_of(session);
    for (size_t i = 0; i < now.size(); ++i)
      if (now[i].tensor.dtype() == DType::f32)
        for (int64_t k = 0; k < now[i].tensor.numel(); ++k) {
          float& a = wanted[i].tensor.data<float>()[k];
          a = kDecay * a + (1 - kDecay) * now[i].tensor.data<float>()[k];
        }
  });
  const NamedTensors got = session.ema->state(), last = values_of(session);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, "ema/" + wanted[i].name);
    if (got[i].tensor.dtype() != DType::f32)  // num_batches_tracked
      EXPECT_TRUE(same_bits(got[i].tensor, last[i].tensor)) << got[i].name;
    else
      for (int64_t k = 0; k < got[i].tensor.numel(); ++k)
        EXPECT_NEAR(got[i].tensor.data<float>()[k], wanted[i].tensor.data<float>()[k], 1e-5)
            << got[i].name;
  }
}

TEST(Average, ContinuesAfterAResumeWithTheSameBits) {
  const Plan plan = normed_plan({{"optimizer.ema_decay", {"0.9"}}});
  Session whole(plan), resumed(plan);
  run(whole);
  EXPECT_EQ(resume(resumed, saved_at(5, plan)).losses.size(), 7u);
  const NamedTensors a = whole.ema->state(), b = resumed.ema->state();
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(same_bits(a[i].tensor, b[i].tensor)) << a[i].name;
}

// eval and predict load the average as the model, also into a plan with an average of its own,
// which starts as the model.
TEST(Average, IsTheModelThatIsLoaded) {
  const Plan plan = normed_plan({{"optimizer.ema_decay", {"0.5"}}});
  Session trained(plan), loaded(plan);
  run(trained);
  restore_model(loaded, {snapshot(state_tensors(trained)), {}});
  EXPECT_EQ(evaluate(loaded).value("loss"), evaluate(trained).value("loss"));
}

// A branch may turn the average on, which then starts from the weights, or off.
TEST(Average, OfABranchStartsFromTheWeights) {
  const Plan without = normed_plan({}), with = normed_plan({{"optimizer.ema_decay", {"0.9"}}});
  std::vector<std::string> notes;
  Session on(with), off(without);
  const SafeTensors saved = saved_at(5, without);
  restore(on, saved, notes, Resume::branch);
  ASSERT_EQ(on.ema->state().size(), saved.tensors.size());
  for (const NamedTensor& t : on.ema->state())
    EXPECT_TRUE(same_bits(t.tensor, by_name(saved.tensors).at(t.name.substr(4)))) << t.name;
  restore(off, saved_at(5, with), notes, Resume::branch);
}

// Training normalizes with the running statistics, which nothing changes.
TEST(Groups, OfAPlanFreezeTheStatisticsOfTheirNormsIfAsked) {
  for (const char* frozen : {"true", "false"}) {
    Session session(normed_plan(from_yaml(
        cat("optimizer.groups: [{parameters: norms, name: sgd, lr: 0, freeze_statistics: ", frozen,
            "}]"))));
    const std::string members = "optimizer.groups: norms: 2 parameters: 2.weight, 2.bias";
    EXPECT_EQ(std::ranges::count(session.notes, members), 1);
    const NamedTensors before = values_of(session);
    run(session);
    const NamedTensors after = values_of(session);
    for (size_t i = 0; i < before.size(); ++i) {
      const std::string& name = before[i].name;
      const bool stays = name == "2.weight" || name == "2.bias";
      const bool statistic = name.starts_with("2.running") || name.starts_with("2.num");
      EXPECT_EQ(same_bits(before[i].tensor, after[i].tensor),
                stays || (statistic && frozen == std::string("true")))
          << name;
    }
  }
}

// 28 digits in batches of 8. The transforms on the device need no rounding to bytes before them.
// Models whose first layer is no convolution receive images in f32.
TEST(ModelInput, MadeForTheModelTrainsAsCastLaterBitForBit) {
  const Values nhwc = {{"data.channels_last", {"true"}},
                       {"model.channels_last", {"true"}},
                       {"kernels.pad_channels", {"true"}}};
  for (const char* const variant :
       {"amp.dtype: off", "amp.dtype: bf16", "amp.dtype: fp16",
        "{amp.dtype: off, kernels.vendor: true}", "{amp.dtype: bf16, kernels.vendor: true}",
        "{amp.dtype: fp16, kernels.vendor: true}",
        "{amp.dtype: bf16, model: {name: resnet18, width: 2}}",
        "{amp.dtype: bf16, model: {name: lenet, fuse: {conv_act_pool: true}}}",
        "{amp.dtype: bf16, model.name: mlp}", "{amp.dtype: bf16, model.name: levels_mlp}",
        "{amp.dtype: bf16, model: {name: layers, layers: [{name: residual, layers: [{name: conv2d, "
        "padding: 1}]}, flatten, {name: linear, out: 10}]}}"})
    for (const Values& format : {Values{}, nhwc}) {
      if (!format.empty() && std::strstr(variant, "model")) continue;
      Values more = from_yaml(variant);
      more.insert(format.begin(), format.end());
      const Plan plan = plan_of(from_yaml(R"(
data: {train_size: 28, test_size: 12, batch_size: 8,
       transforms: [{name: random_crop, size: 28, padding: 2}, normalize]}
optimizer.momentum: 0.9
train.epochs: 2
eval.every: 2
threads.threads: 1
)"),
                                more);
      Plan augmented = plan;
      augmented.data.loader.feed.device_augment = true;
      const Ran want = run(plan), got = run(augmented);
      EXPECT_EQ(got.losses, want.losses) << variant;
      EXPECT_EQ(got.hash, want.hash) << variant;
      EXPECT_EQ(got.metrics->value("loss"), want.metrics->value("loss")) << variant;
    }
}
