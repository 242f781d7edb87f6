// Properties of every registered metric, and ours against plain definitions.
#include "models/metrics/metric.h"
#include <gtest/gtest.h>
#include <cmath>
#include <map>
#include "core/config/values.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"

using namespace bellows;

static constexpr int64_t N = 50, C = 12;

namespace {
struct Batch {
  Tensor output{Shape{N, C}, DType::f32}, labels{Shape{N}, DType::i64};
  // Rows of ties, of NaN, and with NaN beside the label.
  Batch() {
    fill_normal(output, 0, 1, {.seed = 7});
    for (int64_t n = 0; n < N; ++n) labels.data<int64_t>()[n] = n * 5 % C;
    float* const x = output.ptr<float>();
    std::fill_n(x, C, 1.f);
    std::fill_n(x + C, C, NAN);
    x[2 * C + 3] = NAN;
  }
  const float* row(int64_t n) const { return output.ptr<float>() + n * C; }
  int64_t label(int64_t n) const { return labels.data<int64_t>()[n]; }
  // The metric's sum over samples first .. end - 1.
  double sum(const Metric& metric, int64_t first, int64_t end) const {
    const Shape rows{end - first, C}, n{end - first};
    return metric
        .sum(output.view(rows, strides_of(rows), first * C), labels.view(n, strides_of(n), first))
        .item();
  }
};

using Definition = double (*)(const float* scores, int64_t label);

template <int k> double in_top(const float* scores, int64_t label) {
  int ahead = 0;
  for (int64_t c = 0; c < C; ++c)
    if (c != label &&
        (std::isnan(scores[c]) || std::isnan(scores[label]) || scores[c] >= scores[label]))
      ++ahead;
  return ahead < k;
}
double absolute_error(const float* scores, int64_t label) {
  double sum = 0;
  for (int64_t c = 0; c < C; ++c) sum += std::abs(scores[c] - (c == label));
  return sum / C;
}

struct Expected {
  const char* name;  // of the metric with its default options
  bool higher_is_better;
  Definition definition;
};
}  // namespace

static const std::map<std::string, Expected> kExpected = {
    {"accuracy", {"accuracy", true, in_top<1>}},
    {"top_k", {"accuracy_top5", true, in_top<5>}},
    {"mean_absolute_error", {"mean_absolute_error", false, absolute_error}},
};

TEST(Metric, OfEveryNameAddsUpOverTheSamples) {
  const Batch batch;
  for (const std::string& name : Choice<MakeMetric>::names()) {
    const Metric metric = Choice<MakeMetric>(name).make();
    double want = 0;
    for (int64_t n = 3; n < N; ++n) want += batch.sum(metric, n, n + 1);
    EXPECT_NEAR(batch.sum(metric, 3, N), want, 1e-5 * std::abs(want)) << name;
  }
}

// A score of 1 for one class of each sample: its label's, or that of the next class.
TEST(Metric, OfEveryNamePrefersRightScoresAndNoNaN) {
  const auto score = [](const Metric& metric, int64_t shift, float others) {
    const Batch batch;
    fill(batch.output, others);
    for (int64_t n = 0; n < N; ++n)
      batch.output.data<float>()[n * C + (batch.label(n) + shift) % C] += 1;
    return batch.sum(metric, 0, N) * (metric.higher_is_better ? 1 : -1);
  };
  for (const std::string& name : Choice<MakeMetric>::names()) {
    const Metric metric = Choice<MakeMetric>(name).make();
    const double right = score(metric, 0, 0), wrong = score(metric, 1, 0);
    EXPECT_GT(right, wrong) << name;
    EXPECT_FALSE(score(metric, 0, NAN) > wrong) << name << ": a broken model looks good";
  }
}

TEST(Metric, IsTheSumOfItsDefinition) {
  const Batch batch;
  for (const auto& [name, expected] : kExpected) {
    SCOPED_TRACE(name);
    const Metric metric = Choice<MakeMetric>(name).make();
    EXPECT_EQ(metric.name, expected.name);
    EXPECT_EQ(metric.higher_is_better, expected.higher_is_better);
    for (const int64_t first : {0, 3}) {  // with and without NaN
      double want = 0;
      for (int64_t n = first; n < N; ++n) want += expected.definition(batch.row(n), batch.label(n));
      const double got = batch.sum(metric, first, N);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got));
      else
        EXPECT_NEAR(got, want, 1e-5 * std::abs(want));
    }
  }
}

TEST(Metric, TopKCountsTheKHighest) {
  Choice<MakeMetric> top("top_k");
  const Values three = {{"k", {"3"}}};
  Load load(three);
  top.visit_options(load);
  const Metric metric = top.make();
  EXPECT_EQ(metric.name, "accuracy_top3");
  EXPECT_EQ(metric.min_classes, 3);
  const Batch batch;
  double want = 0;
  for (int64_t n = 0; n < N; ++n) want += in_top<3>(batch.row(n), batch.label(n));
  EXPECT_EQ(metric.sum(batch.output, batch.labels).item(), want);
}
