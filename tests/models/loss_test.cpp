// Every registered loss: its gradient, the shapes and labels that it refuses; and each loss against
// its definition.
#include "models/losses/loss.h"
#include <gmock/gmock.h>
#include <cmath>
#include "autograd/gradcheck.h"
#include "core/config/values.h"
#include "core/tensor/rng.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;
using testing::StartsWith;

static LossOptions options_of(const Values& values) { return load(LossOptions{}, values); }

static const std::vector<double> kOutput = {0.5, -1, 2, 0, 0.25, -3};  // (2, 3)
static const std::vector<int64_t> kLabels = {2, 0};

static double loss_of(const Values& values, NamedTensors* terms = nullptr) {
  return criterion({.output = tensor_of(kOutput, {2, 3}),
                    .labels = tensor_of(kLabels, {2}),
                    .terms = terms},
                   options_of(values))
      .item();
}

TEST(Loss, OfEveryNameHasTheGradientOfFiniteDifferences) {
  const Tensor labels = tensor_of<int64_t>({3, 0, 6, 1}, {4});
  ASSERT_GE(Choice<LossFunction>::names().size(), 4u);
  for (const std::string& name : Choice<LossFunction>::names())
    for (const char* fused : {"false", "true"}) {
      const LossOptions options = options_of({{"name", {name}}, {"fused", {fused}}});
      const Tensor output({4, 7}, DType::f64);
      fill_normal(output, 0.4, 1, {.seed = 5});
      const auto loss = [&](const std::vector<Tensor>& in) {
        return criterion(in[0], labels, options);
      };
      EXPECT_EQ(gradcheck(name, loss, {require_grad(output)}), "");
    }
}

TEST(Loss, OfEveryNameRefusesShapesAndLabelsThatDoNotFit) {
  const Tensor labels = tensor_of<int64_t>({1, 2}, {2});
  for (const std::string& name : Choice<LossFunction>::names()) {
    SCOPED_TRACE(name);
    const LossOptions options = options_of({{"name", {name}}});
    for (const Shape& shape : {Shape{2}, Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 0}})
      EXPECT_EQ(refused([&] { criterion(zeros(shape), labels, options); }).exit, Exit::usage)
          << shape;
    const Refusal outside = refused([&] { criterion(zeros({2, 2}), labels, options); });
    EXPECT_EQ(outside.exit, Exit::data);
    EXPECT_THAT(outside.message, StartsWith("label 2 of sample 1 of the batch"));
  }
}

TEST(Loss, IsItsDefinition) {
  const double first = std::log(std::exp(0.5) + std::exp(-1) + std::exp(2)) - 2;
  const double second = std::log(1 + std::exp(0.25) + std::exp(-3)) - 0;
  EXPECT_NEAR(loss_of({}), (first + second) / 2, 1e-12);
  EXPECT_NEAR(loss_of({{"name", {"l1"}}}), (0.5 + 1 + 1 + 1 + 0.25 + 3) / 6, 1e-12);
  EXPECT_NEAR(loss_of({{"name", {"mse"}}}), (0.25 + 1 + 1 + 1 + 0.0625 + 9) / 6, 1e-12);
}

TEST(Loss, SumIsWeightedAndReportsEachTerm) {
  NamedTensors terms;
  const double sum = loss_of({{"name", {"sum"}},
                              {"terms.0", {"cross_entropy"}},
                              {"terms.1.name", {"l1"}},
                              {"terms.1.weight", {"0.1"}},
                              {"terms.2.name", {"l1"}},
                              {"terms.2.weight", {"-3"}}},
                             &terms);
  const double cross_entropy = loss_of({}), l1 = loss_of({{"name", {"l1"}}});
  EXPECT_NEAR(sum, cross_entropy - 2.9 * l1, 1e-12);
  std::vector<std::string> names;
  for (const NamedTensor& term : terms) names.push_back(term.name);
  EXPECT_THAT(names, ElementsAre("loss.cross_entropy", "loss.l1", "loss.l1_2"));
  EXPECT_EQ(terms[1].tensor.item(), l1);
  EXPECT_EQ(refusal([] {
              loss_of({{"name", {"sum"}}, {"terms", {"[]"}}});
            }),
            "terms must have a term, as in [{name: cross_entropy}]");
}

TEST(Loss, SmoothsLabelsInTrainingOnly) {
  const LossOptions smooth = options_of({{"label_smoothing", {"0.3"}}});
  const Tensor output = tensor_of(kOutput, {2, 3}), labels = tensor_of(kLabels, {2});
  EXPECT_NE(criterion(output, labels, smooth).item(), criterion(output, labels, {}).item());
  EXPECT_EQ(criterion({.output = output, .labels = labels, .training = false}, smooth).item(),
            criterion(output, labels, {}).item());
}
