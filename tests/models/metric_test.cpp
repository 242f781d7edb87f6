// Properties of every registered metric, and ours against plain definitions.
#include "models/metrics/metric.h"
#include <gtest/gtest.h>
#include <cmath>
#include "core/config/values.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "ops/shape.h"

using namespace bellows;

static constexpr int64_t N = 50, C = 12;

namespace {
struct Batch {
  Tensor output{Shape{N, C}, DType::f32}, labels{Shape{N}, DType::i64};
  Tensor values = zeros({N, C});  // 1 for the label's class
  // Rows of ties, of NaN, and with NaN beside the label.
  Batch() {
    fill_normal(output, 0, 1, {.seed = 7});
    for (int64_t n = 0; n < N; ++n) {
      labels.data<int64_t>()[n] = n * 5 % C;
      values.data<float>()[n * C + label(n)] = 1;
    }
    float* const x = output.ptr<float>();
    std::fill_n(x, C, 1.f);
    std::fill_n(x + C, C, NAN);
    x[2 * C + 3] = NAN;
  }
  const float* row(int64_t n) const { return output.ptr<float>() + n * C; }
  int64_t label(int64_t n) const { return labels.data<int64_t>()[n]; }
  // The metric's sums over samples first .. end - 1.
  std::vector<double> sums(const Metric& metric, int64_t first, int64_t end) const {
    return sums_in(metric, slice(output, 0, first, end),
                   slice(metric.fits(C) ? labels : values, 0, first, end));
  }
  double value(const Metric& metric) const { return metric.value(sums(metric, 0, N)); }

  static std::vector<double> sums_in(const Metric& metric, const Tensor& output,
                                     const Tensor& target) {
    const Tensor sums = metric.sums(output, target);
    EXPECT_EQ(sums.shape(), Shape{metric.sums_count}) << metric.name;
    return {sums.data<float>().begin(), sums.data<float>().end()};
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
  const char* kind;
  Values options;
  const char* name;
  bool higher_is_better;
  Definition definition;
};
}  // namespace

static const Expected kExpected[] = {
    {"accuracy", {}, "accuracy", true, in_top<1>},
    {"top_k", {}, "accuracy_top5", true, in_top<5>},
    {"top_k", {{"k", {"3"}}}, "accuracy_top3", true, in_top<3>},
    {"mean_absolute_error", {}, "mean_absolute_error", false, absolute_error},
};

static Metric made(const char* kind, const Values& options = {}) {
  Choice<MakeMetric> choice(kind);
  Load load(options);
  choice.visit_options(load);
  return choice.make();
}

static std::vector<Metric> all_metrics() {
  std::vector<Metric> all;
  for (const std::string& name : Choice<MakeMetric>::names())
    all.push_back(Choice<MakeMetric>(name).make());
  return all;
}

TEST(Metric, OfEveryNameAddsUpOverTheSamples) {
  const Batch batch;
  for (const Metric& metric : all_metrics()) {
    std::vector<double> want(metric.sums_count);
    for (int64_t n = 3; n < N; ++n)
      for (int64_t k = 0; k < metric.sums_count; ++k) want[k] += batch.sums(metric, n, n + 1)[k];
    const std::vector<double> got = batch.sums(metric, 3, N);
    for (int64_t k = 0; k < metric.sums_count; ++k)
      EXPECT_NEAR(got[k], want[k], 1e-5 * std::abs(want[k])) << metric.name << k;
  }
}

// A score of 1 for one class of each sample: its label's, or that of the next class.
TEST(Metric, OfEveryNamePrefersRightScoresAndNoNaN) {
  const auto score = [](const Metric& metric, int64_t shift, float others) {
    const Batch batch;
    fill(batch.output, others);
    for (int64_t n = 0; n < N; ++n)
      batch.output.data<float>()[n * C + (batch.label(n) + shift) % C] += 1;
    return batch.value(metric) * (metric.higher_is_better ? 1 : -1);
  };
  for (const Metric& metric : all_metrics()) {
    const double right = score(metric, 0, 0), wrong = score(metric, 1, 0);
    EXPECT_GT(right, wrong) << metric.name;
    EXPECT_FALSE(score(metric, 0, NAN) > wrong) << metric.name << ": a broken model looks good";
  }
}

// Scores of rank 3, with a mark in every third place, give the sums of the others alone.
TEST(Metric, OfClassesLeavesOutWhatIsMarked) {
  const Batch batch;
  std::vector<int64_t> marked;
  std::vector<Tensor> outputs, labels;
  for (int64_t n = 4; n < N; ++n) {
    marked.push_back(n % 3 ? batch.label(n) : -1);
    if (n % 3 == 0) continue;
    outputs.push_back(slice(batch.output, 0, n, n + 1));
    labels.push_back(slice(batch.labels, 0, n, n + 1));
  }
  for (const Metric& metric : all_metrics()) {
    if (!metric.fits(C)) continue;
    const bool by_sample = metric.name == "exact_match";
    const Shape rows = by_sample ? Shape{N - 4} : Shape{2, (N - 4) / 2};
    Shape scores = rows;
    scores.push_back(C);
    const auto got = Batch::sums_in(metric, reshape(slice(batch.output, 0, 4, N), scores),
                                    tensor_of(marked, rows));
    const auto want = Batch::sums_in(metric, concat(outputs, 0), concat(labels, 0));
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_NEAR(got[k], want[k], 1e-6 * want[k]) << metric.name << k;
  }
}

TEST(Metric, IsTheSumOfItsDefinition) {
  const Batch batch;
  EXPECT_EQ(made("top_k", {{"k", {"3"}}}).min_classes, 3);
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.name);
    const Metric metric = made(expected.kind, expected.options);
    EXPECT_EQ(metric.name, expected.name);
    EXPECT_EQ(metric.higher_is_better, expected.higher_is_better);
    for (const int64_t first : {0, 3}) {  // with and without NaN
      double want = 0;
      for (int64_t n = first; n < N; ++n) want += expected.definition(batch.row(n), batch.label(n));
      const double got = batch.sums(metric, first, N)[0];
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got));
      else
        EXPECT_NEAR(got, want, 1e-5 * std::abs(want));
    }
  }
}

static double value_of(const char* name, const Tensor& output, const Tensor& target) {
  const Metric metric = made(name);
  return metric.value(Batch::sums_in(metric, output, target));
}

TEST(Metric, PerplexityIsTheInverseOfTheGeometricMeanOfTheProbabilities) {
  const float two = std::log(2.f), five = std::log(5.f);
  const Tensor output = tensor_of<float>({0, two, five, 0, 0, 0, 9, 9, 0, 0, two, five}, {4, 3});
  const Tensor target = tensor_of<int64_t>({2, 0, -1, 0}, {4});  // 5/8, 1/3, 1/8
  EXPECT_NEAR(value_of("perplexity", output, target), std::cbrt(8 / 5. * 3 * 8), 1e-5);
}

TEST(Metric, ExactMatchIsTheShareOfSamplesWithoutAMiss) {
  // Scores of class 1, beside 0 for class 0, of five samples of three positions.
  const std::vector<float> ones = {1, -1, 1, 1, 1, -9, -1, 1, 0, 1, NAN, 1, 5, 5, 5};
  const std::vector<int64_t> target = {1,  0,  1,    // right
                                       1,  1,  -1,   // right: the last one is left out
                                       0,  1,  1,    // a tie
                                       1,  1,  1,    // NaN
                                       -1, -1, -1};  // does not count
  std::vector<float> scores;
  for (const float one : ones) scores.insert(scores.end(), {0, one});
  EXPECT_DOUBLE_EQ(value_of("exact_match", tensor_of(scores, {5, 3, 2}), tensor_of(target, {5, 3})),
                   2 / 4.);
}

TEST(Metric, R2IsTheExplainedShareOfTheVariance) {
  const std::vector<float> y = {1, 2, 3, 6}, guess = {1, 2, 4, 4};  // SSE 5, about the mean 3: 14
  for (const Shape& shape : {Shape{4}, Shape{4, 1}})
    EXPECT_NEAR(value_of("r2", tensor_of(guess, {4, 1}), tensor_of(y, shape)), 1 - 5. / 14, 1e-6);
  EXPECT_NEAR(value_of("r2", tensor_of(guess, {2, 2}), tensor_of(y, {2, 2})), 1 - 5. / 14, 1e-6);
  EXPECT_NEAR(value_of("mean_absolute_error", tensor_of(guess, {2, 2}), tensor_of(y, {2, 2})),
              3 / 4., 1e-6);
}
