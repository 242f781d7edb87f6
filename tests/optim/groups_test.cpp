// Groups of parameters with their own rule.
#include <gmock/gmock.h>
#include "optim/schedule.h"
#include "tests/optim/trained.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

GroupOptions group(const std::string& parameters, double lr, double epochs = 0) {
  return load(GroupOptions{}, {{"parameters", {parameters}},
                               {"name", {"sgd"}},
                               {"lr", {cat(lr)}},
                               {"epochs", {cat(epochs)}}});
}

Tensor leaf(const Shape& shape, double (*value)(double)) {
  const Tensor t(shape, DType::f64);
  for (int64_t i = 0; i < t.numel(); ++i) t.ptr<double>()[i] = value(double(i));
  return require_grad(t);
}

}  // namespace

namespace {

// Returns the decrease of a.weight, a.bias and b.bias, all 0 at first, by updates with gradients of
// 1.
std::vector<double> taken(const OptimizerOptions& options, const std::vector<Tensor>& tables,
                          int updates = 1) {
  NamedTensors parameters;
  for (const char* name : {"a.weight", "a.bias", "b.bias"})
    parameters.push_back({name, leaf({2}, [](double) { return 0.; })});
  Optimizer optimizer(options, parameters, rates({1}), tables);
  DeviceStepState state(Device::cpu);
  for (int i = 0; i < updates; ++i) {
    for (const NamedTensor& p : parameters)
      set_grad(p.tensor, leaf({2}, [](double) { return 1.; }).detach());
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

TEST(Groups, RestAfterTheirEpochs) {
  ScheduleOptions linear;
  linear.curve.choose("linear");
  const Tensor table = lr_table(linear, 4, 2, 6, 2);  // two of three epochs
  EXPECT_THAT(std::vector(table.ptr<double>(), table.ptr<double>() + table.numel()),
              ElementsAre(4, 3, 2, 1, 0));
  EXPECT_EQ(lr_table(linear, 4, 3, 6, 2).numel(), 6);
  EXPECT_EQ(lr_table(linear, 4, 9, 6, 2).numel(), 6);
  OptimizerOptions options = sgd_options();
  options.groups = {group("a.bias", 4, 2)};
  EXPECT_THAT(taken(options, {table}, 9), ElementsAre(9, 10, 9));
}

TEST(Groups, MustNameSomething) {
  OptimizerOptions options = sgd_options();
  options.groups = {group("*.bias", 1), group("b.bias", 1)};
  EXPECT_THAT(refusal([&] {
                taken(options, {rates({1}), rates({1})});
              }),
              HasSubstr("no parameter is left that 'b.bias' names; the first one is 'a.weight'"));
}

TEST(Groups, AreClippedTogether) {
  OptimizerOptions options = sgd_options();
  options.groups = {group("*.bias", 0)};
  options.clip_norm = std::sqrt(6.) / 2;  // all six gradients are 1
  for (const double value : taken(options, {rates({1})})) EXPECT_NEAR(value, 0.5, 1e-6);
}

TEST(Schedule, LinearFallsToItsShare) {
  ScheduleOptions options;
  options.curve.choose("linear");
  options.warmup_updates = 2;
  const Tensor table = lr_table(options, 1, 3, 6, 2);
  EXPECT_THAT(std::vector(table.ptr<double>(), table.ptr<double>() + 6),
              ElementsAre(testing::DoubleEq(.01), testing::DoubleEq(.505), 1, .75, .5, .25));
}
