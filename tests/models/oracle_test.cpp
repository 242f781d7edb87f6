// Compares LeNet with PyTorch: loss and every gradient on one batch, for each implementation.
// tests/oracle/make_fixtures.py wrote the fixture; PyTorch is not needed here.
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "models/losses/loss.h"
#include "tests/difference.h"
#include "tests/models/build.h"

using namespace bellows;

static const NamedTensors& expected() {
  static const NamedTensors tensors = fixture("lenet");
  return tensors;
}

struct StepCase {
  const char* name;
  bool fused_layers = false;
  LossOptions loss = {};
  KernelOptions kernels = {};
};
static std::ostream& operator<<(std::ostream& out, const StepCase& way) { return out << way.name; }

class Oracle : public testing::TestWithParam<StepCase> {};
INSTANTIATE_TEST_SUITE_P(
    Of, Oracle,
    testing::Values(StepCase{"plain"}, StepCase{"fused_loss", false, {.fused = true}},
                    StepCase{"vendor_kernels", false, {}, {.vendor = true}},
                    StepCase{"deterministic", false, {}, {.vendor = true, .deterministic = true}},
                    StepCase{"batch_lanes", true},
                    StepCase{"all", true, {.fused = true}, {.vendor = true}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(Oracle, GivesTheLossAndEveryGradient) {
  const StepCase& way = GetParam();
  const Kernels use(way.kernels);
  const ModulePtr model =
      build({{"name", "lenet"}, {"fuse.conv_act_pool", way.fused_layers ? "true" : "false"}});
  for (const NamedTensor& p : model->parameters()) copy_into(p.tensor, find(expected(), p.name));
  const Tensor loss =
      criterion((*model)(find(expected(), "images")), find(expected(), "labels"), way.loss);
  backward(loss);
  EXPECT_LT(difference(find(expected(), "loss"), loss, 0), 1e-5);
  for (const NamedTensor& p : model->parameters())
    EXPECT_LT(difference(find(expected(), "grad." + p.name), grad(p.tensor), 0), 1e-5) << p.name;
  EXPECT_EQ(model->parameters().size(), std::ranges::count_if(expected(), [](const auto& t) {
              return t.name.starts_with("grad.");  // no others exist in PyTorch's model
            }));
}
