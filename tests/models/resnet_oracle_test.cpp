// Compares one training step of ResNet-18 and ResNet-50 with PyTorch: loss, every gradient and the
// running statistics, for each implementation. The fixtures are written and described by
// tests/oracle/make_fixtures.py; PyTorch is not needed here.
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "models/losses/loss.h"
#include "tests/difference.h"
#include "tests/models/build.h"

using namespace bellows;

// ---- the formula: numbers(), value() and samples() of make_fixtures.py

static Tensor numbers(const std::string& name, const Shape& shape) {
  uint32_t start = 2166136261;
  for (const unsigned char c : name) start = (start ^ c) * 16777619;
  const Tensor t(shape, DType::f32);
  for (float& number : t.data<float>()) {
    uint32_t h = start++;
    h = (h ^ h >> 16) * 0x85ebca6b;
    h = (h ^ h >> 13) * 0xc2b2ae35;
    h ^= h >> 16;
    number = float(h >> 8) * 0x1p-23f - 1;
  }
  return t;
}

static Tensor value(const std::string& name, const Shape& shape) {
  const Tensor t = numbers(name, shape);
  const double bound = std::sqrt(6.0 * double(shape[0]) / double(shape.numel()));
  for (float& u : t.data<float>())
    u = shape.rank() > 1 ? float(u * bound) : name.ends_with("weight") ? 1 + u / 4 : u / 2;
  return t;
}

static Tensor samples(const Tensor& t) {
  const Tensor all = contiguous(cast(t, DType::f32));
  const int64_t n = all.numel(), kept = std::min<int64_t>(n, 23);
  const Tensor some({kept}, DType::f32);
  for (int64_t k = 0; k < kept; ++k) some.ptr<float>()[k] = all.ptr<float>()[k * n / kept];
  return some;
}

// Two sums over the whole gradient, which detect any wrong element.
static Tensor whole(const std::string& name, const Tensor& t) {
  const Tensor all = contiguous(t), probe = numbers("probe." + name, t.shape());
  double squares = 0, product = 0;
  for (int64_t i = 0; i < all.numel(); ++i) {
    const double g = all.ptr<float>()[i];
    squares += g * g;
    product += g * probe.ptr<float>()[i];
  }
  return tensor_of<float>({float(std::sqrt(squares)), float(product)}, {2});
}

// ---- the step

namespace {

struct Net {
  const char* name;  // of the model and of its fixture
  const char* stem;
  Shape images;
};

struct Way {
  const char* name;
  KernelOptions kernels = {};
  std::map<std::string, std::string> model = {};  // options, such as those of the fuse pass
};

struct OneStep {
  NamedTensors expected;
  ModulePtr model = {};  // with gradients and statistics
  Tensor loss = {};
};
std::ostream& operator<<(std::ostream& out, const Net& net) { return out << net.name; }
std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

}  // namespace

static const Net kResNet18{"resnet18", "cifar", {8, 3, 32, 32}};
static const Net kResNet50{"resnet50", "imagenet", {4, 3, 64, 64}};

static bool has(const NamedTensors& tensors, const std::string& name) {
  return std::ranges::count(tensors, name, &NamedTensor::name) > 0;
}
static size_t count_with(const NamedTensors& tensors, const std::string& part) {
  return std::ranges::count_if(
      tensors, [&](const NamedTensor& t) { return t.name.find(part) != std::string::npos; });
}

static OneStep run(const Net& net, const Way& way) {
  const Kernels use(way.kernels);
  std::map<std::string, std::string> options{{"name", net.name}, {"stem", net.stem}};
  options.insert(way.model.begin(), way.model.end());
  OneStep step{fixture(net.name)};
  step.model = build(options, {.sample = {net.images[1], net.images[2], net.images[3]}});
  for (const NamedTensor& p : step.model->parameters())
    copy_into(p.tensor, has(step.expected, p.name) ? find(step.expected, p.name)
                                                   : value(p.name, p.tensor.shape()));
  const Tensor logits = (*step.model)(numbers("images", net.images));
  step.loss = criterion(logits, find(step.expected, "labels"), {});
  backward(step.loss);
  return step;
}

// Relative to the largest magnitude, as far as f32 allows: PyTorch's f32 differs from its f64 by up
// to 2.6e-5 in the gradients, 3.2e-6 in the statistics and 5e-7 in the loss, depending on memory
// format.
static constexpr double kGradients = 1e-4, kStatistics = 2e-5, kLoss = 5e-6;

class ResNetOracle : public testing::TestWithParam<std::tuple<Net, Way>> {};
INSTANTIATE_TEST_SUITE_P(
    Of, ResNetOracle,
    testing::Combine(
        testing::Values(kResNet18, kResNet50),
        testing::Values(Way{"plain"}, Way{"vendor_kernels", {.vendor = true}},
                        Way{"deterministic", {.vendor = true, .deterministic = true}},
                        Way{"fused", {}, {{"fuse.bn_act", "true"}, {"fuse.bn_add_act", "true"}}},
                        Way{"fused_add", {}, {{"fuse.add_act", "true"}}})),
    [](const auto& info) {
      return cat(std::get<Net>(info.param).name, "_", std::get<Way>(info.param).name);
    });

TEST_P(ResNetOracle, GivesTheLossEveryGradientAndTheStatistics) {
  const auto& [net, way] = GetParam();
  const OneStep step = run(net, way);
  EXPECT_LT(difference(find(step.expected, "loss"), step.loss, 0), kLoss);
  const NamedTensors parameters = step.model->parameters(), buffers = step.model->buffers();
  for (const NamedTensor& p : parameters) {
    const Tensor g = grad(p.tensor);
    EXPECT_LT(difference(find(step.expected, "grad." + p.name), samples(g), 0), kGradients)
        << p.name;
    EXPECT_LT(difference(find(step.expected, "whole." + p.name), whole(p.name, g), 0), kGradients)
        << p.name;
  }
  for (const NamedTensor& b : buffers)
    EXPECT_LT(difference(find(step.expected, b.name), samples(b.tensor), 0), kStatistics) << b.name;
  // No others exist in PyTorch's model. A batch norm has a mean, a variance and a count of batches.
  EXPECT_EQ(parameters.size(), count_with(step.expected, "grad."));
  EXPECT_EQ(buffers.size(), 3 * count_with(step.expected, "running_mean"));
}

TEST(ResNetOracleTest, HasTheImagesThatPyTorchHad) {
  for (const Net& net : {kResNet18, kResNet50})
    EXPECT_EQ(difference(find(fixture(net.name), "images"), samples(numbers("images", net.images))),
              0);
}
