// Groups of parameters with their own rule.
#include <gmock/gmock.h>
#include "tests/optim/trained.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

GroupOptions group(const std::string& parameters, double lr) {
  return load(GroupOptions{}, {{"parameters", {parameters}}, {"name", {"sgd"}}, {"lr", {cat(lr)}}});
}

// Returns the decrease of a.weight, a.bias and b.bias, all 0 at first, by updates with gradients of
// 1.
std::vector<double> taken(const OptimizerOptions& options, const std::vector<Tensor>& tables,
                          int updates = 1) {
  NamedTensors parameters;
  for (const char* name : {"a.weight", "a.bias", "b.bias"})
    parameters.push_back({name, require_grad(zeros({2}, DType::f64))});
  Optimizer optimizer(options, parameters, rates({1}), tables);
  DeviceStepState state(Device::cpu);
  for (int i = 0; i < updates; ++i) {
    for (const NamedTensor& p : parameters) set_grad(p.tensor, full({2}, 1, DType::f64));
    optimizer.step(state);
  }
  EXPECT_EQ(state.read().applied, updates);
  std::vector<double> values;
  for (const NamedTensor& p : parameters) values.push_back(-p.tensor.ptr<double>()[1]);
  return values;
}

}  // namespace

TEST(Groups, AParameterBelongsToTheFirstThatNamesIt) {
  for (const bool fused : {false, true}) {
    OptimizerOptions options = sgd_options();
    options.fused = fused;
    options.groups = {group("a.bias", 0), group("*.bias", 0)};
    EXPECT_THAT(taken(options, {rates({10}), rates({100})}), ElementsAre(1, 10, 100));
    options.groups = {group("a.*a*", 0)};
    EXPECT_THAT(taken(options, {rates({10})}), ElementsAre(1, 10, 1));
    options.groups = {group("*", 0)};
    EXPECT_THAT(taken(options, {rates({10})}), ElementsAre(10, 10, 10));
  }
}

TEST(Groups, MustNameSomething) {
  OptimizerOptions options = sgd_options();
  options.groups = {group("*.bias", 1), group("b.bias", 1)};
  EXPECT_THAT(refusal([&] {
                taken(options, {rates({1}), rates({1})});
              }),
              HasSubstr("no parameter is left that 'b.bias' names; the first one is 'a.weight'"));
}

// All six gradients are 1; the two of a.weight have the norm sqrt(2).
TEST(Groups, LeaveTheClipNormWhileTheyAreFrozen) {
  for (const bool fused : {false, true}) {
    OptimizerOptions options = sgd_options();
    options.fused = fused;
    options.groups = {group("*.bias", 0)};
    options.clip_norm = std::sqrt(2.) / 4;
    const std::vector<double> all = taken(options, {rates({0})});
    EXPECT_NEAR(all[0], 0.25, 1e-6);
    EXPECT_EQ(all[1], 0);
    // From the second update on, the rate of the group is 0.
    const std::vector<double> later = taken(options, {rates({2, 0})}, 2);
    EXPECT_NEAR(later[0], std::sqrt(2. / 6) / 4 + 0.25, 1e-6);
    EXPECT_NEAR(later[1], 2 * std::sqrt(2. / 6) / 4, 1e-6);
  }
}

// A rate of 0 at the start of a warm-up is not frozen. A NaN times a rate of 0 would be a NaN.
TEST(Groups, ThatAreFrozenStillCountForWhatIsNotFinite) {
  OptimizerOptions options = sgd_options();
  options.groups = {group("b", 0)};
  options.clip_norm = 1;
  const Tensor a = require_grad(zeros({2}, DType::f64)), b = require_grad(zeros({2}, DType::f64));
  for (const auto& [table, norm] : {std::pair{rates({0}), 2.}, {rates({0, 1}), std::sqrt(8.)}}) {
    Optimizer optimizer(options, {{"a", a}, {"b", b}}, rates({1}), std::vector<Tensor>{table});
    DeviceStepState state(Device::cpu);
    const auto step = [&](double value) {
      set_grad(a, full({2}, std::sqrt(2.), DType::f64));
      set_grad(b, full({2}, value, DType::f64));
      optimizer.step(state);
      return state.read();
    };
    EXPECT_NEAR(step(std::sqrt(2.)).grad_norm, norm, 1e-6);
    const StepState bad = step(NAN);
    EXPECT_EQ(bad.skipped, 1);
    EXPECT_FALSE(std::isnan(b.ptr<double>()[0]));
  }
}

TEST(Groups, TakeKindsAsWellAsNames) {
  OptimizerOptions options = sgd_options();
  options.norms = {"bn1", "layer2.0.downsample.1"};
  options.groups = {group("norms", 0), group("biases", 0), group("*.weight", 0)};
  EXPECT_EQ(group_of(options, "layer2.0.downsample.1.weight"), 0u);
  EXPECT_EQ(group_of(options, "bn1.bias"), 0u);
  EXPECT_EQ(group_of(options, "fc.bias"), 1u);
  EXPECT_EQ(group_of(options, "layer2.0.downsample.0.weight"), 2u);
  EXPECT_EQ(group_of(options, "tokens"), 3u);
}
