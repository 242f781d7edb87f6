// Evaluation with several views of each image, against views made here pixel by pixel.
#include "trainer/session/evaluate.h"
#include <gtest/gtest.h>
#include <cmath>
#include "core/base/trace.h"
#include "core/config/values.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/refusal.h"
#include "trainer/session/session.h"
#include "trainer/state/training_state.h"

using namespace bellows;

static Plan plan_with(const char* tta) {
  return load(Plan{}, {{"device", {"cpu"}},
                       {"data.train_size", {"8"}},
                       {"data.test_size", {"21"}},
                       {"data.batch_size", {"8"}},
                       {"model", {"mlp"}},
                       {"model.hidden.0", {"16"}},
                       {"eval.tta", {tta}}});
}

// Returns x(i + shift, j + shift), reflected at the borders, then mirrored if `mirrored`.
static Tensor seen(const Tensor& x, int64_t shift, bool mirrored) {
  const int64_t N = x.dim(0), H = x.dim(2), W = x.dim(3);
  const auto inside = [](int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i; };
  const Tensor y(x.shape(), DType::f32);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t i = 0; i < H; ++i)
      for (int64_t j = 0; j < W; ++j)
        y.data<float>()[(n * H + i) * W + (mirrored ? W - 1 - j : j)] =
            x.data<float>()[(n * H + inside(i + shift, H)) * W + inside(j + shift, W)];
  return y;
}

TEST(Evaluate, TestTimeAugmentationIsTheWeightedMeanOfTheLogits) {
  Session plain(plan_with("none")), tta(plan_with("mirror_shift"));
  plain.model->train(false);
  double loss = 0, right = 0;
  plain.test_feed->start(0);
  for (Batch batch; plain.test_feed->next(batch);) {
    std::vector<double> scores(batch.size() * 10);
    for (const int64_t shift : {0, -1, 1})
      for (const bool mirrored : {false, true}) {
        const Tensor logits = (*plain.model)(seen(batch.x, shift, mirrored)).detach();
        for (size_t i = 0; i < scores.size(); ++i)
          scores[i] += (shift ? .125 : .25) * logits.data<float>()[i];
      }
    for (int64_t n = 0; n < batch.size(); ++n) {
      const double* const row = &scores[n * 10];
      double sum = 0;
      for (int c = 0; c < 10; ++c) sum += std::exp(row[c]);
      const int64_t label = batch.y.data<int64_t>()[n];
      loss += std::log(sum) - row[label];
      right += std::max_element(row, row + 10) - row == label;
    }
  }
  const Metrics metrics = evaluate(tta);
  EXPECT_EQ(metrics.samples, 21);
  EXPECT_NEAR(metrics.value("loss"), loss / 21, 1e-5);
  EXPECT_NEAR(metrics.value("accuracy"), right / 21, 1e-9);
  EXPECT_GT(std::abs(metrics.value("loss") - evaluate(plain).value("loss")), 1e-4);
}

// The caller has no kernel options in force.
TEST(Evaluate, RunsUnderThePlansKernelOptionsAsLossOfDoes) {
  Session session(load(
      plan_with("none"),
      {{"model", {"lenet"}}, {"data.train_size", {"8"}}, {"kernels.autotune", {"benchmark"}}}));
  const trace::Counter& hits = trace::counter("autotune.hits");
  const int64_t before = hits.value();
  evaluate(session);  // batches of 8, 8 and 5: the second finds what the first searched
  EXPECT_EQ(kernel_options(), KernelOptions());
  const int64_t evaluated = hits.value();
  EXPECT_GE(evaluated - before, 2) << "two convolutions";
  Batch batch;
  session.feed->start(0);
  ASSERT_TRUE(session.feed->next(batch));
  session.loss_of(batch), session.loss_of(batch);
  EXPECT_GE(hits.value() - evaluated, 2);
}

// Evaluates seven images. The fourth is damaged if `there`, else missing.
static Metrics metrics_of_images(bool there, const char* tta, const Values& more = {}) {
  const TempFolder folder;
  for (const char* split : {"train", "val"})
    for (int i = 0; i < 7; ++i)
      if (there || i != 3 || split[0] == 't')
        folder.write(cat(split, i < 5 ? "/a/" : "/b/", i, ".png"), as_png(slopes(6 + i, 8)));
  if (there) folder.write("val/a/3.png", "no picture");
  Values values = {{"device", {"cpu"}},
                   {"data", {"image_folder"}},
                   {"data.root", {folder.path.string()}},
                   {"data.on_damaged", {"skip"}},
                   {"data.batch_size", {"3"}},
                   {"data.transforms.0.name", {"center_crop"}},
                   {"data.transforms.0.size", {"6"}},
                   {"data.transforms.1.name", {"normalize"}},
                   {"model", {"mlp"}},
                   {"eval.tta", {tta}}};
  values.insert(more.begin(), more.end());
  Session session(load(Plan{}, values));
  return evaluate(session);
}

TEST(Evaluate, RefusesAMetricThatNeedsMoreClasses) {
  for (const char* option : {"target.metric", "ckpt.best"})
    EXPECT_EQ(refusal([&] {
                metrics_of_images(true, "none", {{option, {"accuracy_top5"}}});
              }),
              cat(option,
                  ": accuracy_top5 needs 5 classes or more, and image_folder has 2; "
                  "use accuracy"));
}

TEST(Evaluate, ComputesTheMetricsOfTheListAndTheTermsOfTheLoss) {
  const Plan plan = load(plan_with("none"), {{"eval.metrics.0", {"mean_absolute_error"}},
                                             {"eval.metrics.1.name", {"top_k"}},
                                             {"eval.metrics.1.k", {"2"}},
                                             {"loss", {"sum"}},
                                             {"loss.terms.0", {"mse"}},
                                             {"loss.terms.1.name", {"l1"}},
                                             {"loss.terms.1.weight", {"0.5"}},
                                             {"ckpt.best", {"mean_absolute_error"}}});
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

TEST(Evaluate, RefusesAMetricThatIsNotInTheList) {
  const auto refusal_of = [](const Values& values) {
    return refusal([&] { Session session(load(plan_with("none"), values)); });
  };
  EXPECT_EQ(refusal_of({{"target.metric", {"f1"}}}),
            "target.metric: 'f1' is not evaluated; eval.metrics has loss, accuracy, "
            "accuracy_top5");
  for (const char* option : {"target.metric", "ckpt.best"})
    EXPECT_EQ(refusal_of({{option, {""}}}),
              cat(option, ": '' is not evaluated; eval.metrics has loss, accuracy, accuracy_top5"));
  EXPECT_EQ(refusal_of({{"schedule", {"plateau"}}, {"schedule.metric", {"accuracy_top3"}}}),
            "schedule.metric: 'accuracy_top3' is not evaluated; eval.metrics has loss, accuracy, "
            "accuracy_top5");
  EXPECT_EQ(refusal_of({{"eval.metrics.0", {"accuracy"}}, {"eval.metrics.1", {"accuracy"}}}),
            "eval.metrics: accuracy is named twice");
}

TEST(Evaluate, LeavesOutDamagedSamplesWithoutReplacement) {
  for (const char* tta : {"none", "mirror"}) {
    const Metrics got = metrics_of_images(true, tta), want = metrics_of_images(false, tta);
    EXPECT_EQ(got.samples, 6);
    EXPECT_EQ(got.damaged, 1);
    EXPECT_EQ(want.samples, 6);
    EXPECT_EQ(want.damaged, 0);
    EXPECT_NEAR(got.value("loss"), want.value("loss"), 1e-6);
    EXPECT_EQ(got.value("accuracy"), want.value("accuracy"));
  }
}

TEST(Evaluate, WithAveragedWeightsRestoresTheModel) {
  Plan plan = plan_with("none");
  plan.optimizer.ema_decay = 0.75;
  Session session(plan), other(plan);
  const auto weight = [](Session& s) { return s.parameters.front().tensor.detach(); };
  const Tensor first = clone(weight(session));
  fill(weight(session), 2);
  session.ema->update();
  const NamedTensor average = session.ema->state().front();
  EXPECT_EQ(average.name, "ema/fc1.weight");
  for (int64_t i = 0; i < first.numel(); ++i)
    EXPECT_NEAR(average.tensor.data<float>()[i], .75 * first.data<float>()[i] + .25 * 2, 1e-6);
  copy_into(weight(other), average.tensor);
  other.ema->restart();
  EXPECT_EQ(evaluate(session).value("loss"), evaluate(other).value("loss"));
  EXPECT_EQ(weight(session).data<float>()[0], 2);
}

// Verbs that load a model receive the average, if the run has one.
TEST(Evaluate, TheModelOfACheckpointIsTheAverage) {
  const Tensor plain = full({2}, 1), average = full({2}, 3);
  const NamedTensors model =
      model_part({{"w", plain}, {"optimizer/momentum.w", plain}, {"ema/w", average}});
  ASSERT_EQ(model.size(), 1u);
  EXPECT_EQ(model[0].name, "w");
  EXPECT_EQ(model[0].tensor.data<float>()[1], 3);
}
