// Every registered loss: its gradient, the shapes and labels that it refuses; and each loss against
// its definition.
#include "models/losses/loss.h"
#include <cmath>
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/config/values.h"
#include "core/tensor/rng.h"
#include "ops/shape.h"
#include "tests/matchers.h"
#include "tests/refusal.h"

using namespace bellows;

static LossOptions options_of(const Values& values) { return load(LossOptions{}, values); }

static const std::vector<double> kOutput = {0.5, -1, 2, 0, 0.25, -3};  // (2, 3)
static const std::vector<int64_t> kLabels = {2, 0};

static double loss_of(const Values& values, NamedTensors* terms = nullptr) {
  return criterion({.output = tensor_of(kOutput, {2, 3}),
                    .target = tensor_of(kLabels, {2}),
                    .terms = terms},
                   options_of(values))
      .item();
}

// Targets for outputs (5, 7): classes, of which one is left out, or values.
static Tensor classes_of_five() { return tensor_of<int64_t>({3, 0, -1, 6, 1}, {5}); }
static Tensor normal(const Shape& shape, uint64_t seed) {
  const Tensor t(shape, DType::f64);
  fill_normal(t, 0.4, 1, {.seed = seed});
  return t;
}
// Returns the kinds of targets that the loss takes. A loss may refuse one kind, not both.
static std::vector<Tensor> targets_for(const std::string& name) {
  std::vector<Tensor> targets;
  for (const Tensor& target : {classes_of_five(), normal({5, 7}, 6)}) try {
      criterion(normal({5, 7}, 5), target, options_of({{"name", {name}}}));
      targets.push_back(target);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(": the targets are ")) << name;
    }
  EXPECT_FALSE(targets.empty()) << name;
  return targets;
}
static bool takes_classes(const std::string& name) {
  return targets_for(name)[0].dtype() == DType::i64;
}

TEST(Loss, OfEveryNameHasTheGradientOfFiniteDifferences) {
  ASSERT_GE(Choice<LossFunction>::names().size(), 5u);
  for (const std::string& name : Choice<LossFunction>::names())
    for (const char* fused : {"false", "true"})
      for (const Tensor& target : targets_for(name))
        for (const Tensor& divisor : {Tensor(), full({}, 3.5)}) {
          const LossOptions options = options_of({{"name", {name}}, {"fused", {fused}}});
          const auto loss = [&](const std::vector<Tensor>& in) {
            return criterion({.output = in[0], .target = target, .divisor = divisor}, options);
          };
          EXPECT_EQ(gradcheck(name, loss, {require_grad(normal({5, 7}, 5))}), "");
        }
}

// Parts of 2 and 3 samples, of which 2 classes count in each.
TEST(Loss, OfEveryNameAddsUpOverUnevenPartsThatShareADivisor) {
  for (const std::string& name : Choice<LossFunction>::names())
    for (const char* fused : {"false", "true"})
      for (const Tensor& target : targets_for(name)) {
        SCOPED_TRACE(cat(name, " ", fused, " ", target.dtype()));
        const LossOptions options = options_of({{"name", {name}}, {"fused", {fused}}});
        const Tensor x = require_grad(normal({5, 7}, 5)), y = require_grad(normal({5, 7}, 5));
        const Tensor whole = criterion(x, target, options);
        backward(whole);
        const Tensor divisor = full({}, target.dtype() == DType::i64 ? 4 : 5);
        double sum = 0;
        for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, 5)}) {
          const Tensor part = criterion({.output = slice(y, 0, begin, end),
                                         .target = slice(target, 0, begin, end),
                                         .divisor = divisor},
                                        options);
          backward(part);
          sum += part.item();
        }
        EXPECT_NEAR(sum, whole.item(), 1e-14);
        const Tensor dx = grad(x), dy = grad(y);
        for (int i = 0; i < 35; ++i)
          EXPECT_NEAR(dy.data<double>()[i], dx.data<double>()[i], 1e-16) << i;
      }
}

TEST(Loss, LeavesOutWhatIsMarked) {
  const Tensor output = normal({2, 3, 4}, 8);
  const Tensor marked = tensor_of<int64_t>({-1, 3, 0, 1, -1, 2}, {2, 3});
  const Tensor rows = reshape(output, {6, 4});
  const std::vector<Tensor> counted = {slice(rows, 0, 1, 4), slice(rows, 0, 5, 6)};
  const Tensor others = concat(counted, 0), labels = tensor_of<int64_t>({3, 0, 1, 2}, {4});
  for (const std::string& name : Choice<LossFunction>::names()) {
    if (!takes_classes(name)) continue;
    for (const char* fused : {"false", "true"}) {
      const LossOptions options = options_of({{"name", {name}}, {"fused", {fused}}});
      EXPECT_NEAR(criterion(output, marked, options).item(),
                  criterion(others, labels, options).item(), 1e-15)
          << name << fused;
    }
  }
}

TEST(Loss, OfEveryNameRefusesShapesAndLabelsThatDoNotFit) {
  const Tensor labels = tensor_of<int64_t>({1, 2}, {2});
  for (const std::string& name : Choice<LossFunction>::names()) {
    SCOPED_TRACE(name);
    const LossOptions options = options_of({{"name", {name}}});
    for (const Shape& shape : {Shape{2}, Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 0}})
      for (const Tensor& target : {labels, zeros({2}), zeros({2, 2}), zeros({2, 3, 2})})
        EXPECT_EQ(refused([&] { criterion(zeros(shape), target, options); }).exit, Exit::usage)
            << shape << target.shape();
    if (!takes_classes(name)) continue;
    const auto outside = [&] { criterion(zeros({2, 2}), labels, options); };
    EXPECT_THAT(complaint(Exit::data, outside), StartsWith("label 2 of sample 1 of the batch"));
  }
}

TEST(Loss, RefusesTargetsOfAnotherKindAndNamesALossThatFits) {
  const auto refusal_of = [](const char* name, const Tensor& output, const Tensor& target) {
    return refusal([&] { criterion(output, target, options_of({{"name", {name}}})); });
  };
  EXPECT_EQ(refusal_of("cross_entropy", zeros({8, 1}), zeros({8, 1})),
            "cross_entropy: the targets are values (output f32 [8,1], target f32 [8,1]); use  "
            "loss: {name: mse}");
  EXPECT_EQ(refusal_of("huber", zeros({2, 3}), tensor_of(kLabels, {2})),
            "huber: the targets are classes (output f32 [2,3], target i64 [2]); use  "
            "loss: {name: cross_entropy}");
  EXPECT_EQ(refusal_of("l1", zeros({8, 3}), zeros({8, 2})),
            "l1: output f32 [8,3], target f32 [8,2]; for values they should be (N, K) and (N, K), "
            "or (N, 1) and (N)");
}

TEST(Loss, IsItsDefinition) {
  const double first = std::log(std::exp(0.5) + std::exp(-1) + std::exp(2)) - 2;
  const double second = std::log(1 + std::exp(0.25) + std::exp(-3)) - 0;
  EXPECT_NEAR(loss_of({}), (first + second) / 2, 1e-12);
  EXPECT_NEAR(loss_of({{"name", {"l1"}}}), (0.5 + 1 + 1 + 1 + 0.25 + 3) / 6, 1e-12);
  EXPECT_NEAR(loss_of({{"name", {"mse"}}}), (0.25 + 1 + 1 + 1 + 0.0625 + 9) / 6, 1e-12);
}

// Errors 0.5, -2, 0, 3 in two samples.
TEST(Loss, OfValuesIsItsDefinition) {
  const std::vector<double> output = {1.5, 0, 1, 2};
  const auto loss_of_values = [&](const Values& values) {
    const Tensor pairs = tensor_of<double>({1, 2, 1, -1}, {2, 2}), list = reshape(pairs, {4});
    const double loss = criterion(tensor_of(output, {2, 2}), pairs, options_of(values)).item();
    EXPECT_EQ(criterion(tensor_of(output, {4, 1}), list, options_of(values)).item(), loss);
    return loss;
  };
  EXPECT_NEAR(loss_of_values({{"name", {"mse"}}}), (0.25 + 4 + 9) / 4, 1e-15);
  EXPECT_NEAR(loss_of_values({{"name", {"l1"}}}), 5.5 / 4, 1e-15);
  EXPECT_NEAR(loss_of_values({{"name", {"huber"}}}), (0.125 + 1.5 + 2.5) / 4, 1e-15);
  EXPECT_NEAR(loss_of_values({{"name", {"huber"}}, {"delta", {"2"}}}), (0.125 + 2 + 4) / 4, 1e-15);
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
  EXPECT_EQ(criterion({.output = output, .target = labels, .training = false}, smooth).item(),
            criterion(output, labels, {}).item());
}
