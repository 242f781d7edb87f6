// oneDNN has a reference implementation, some hundred times slower, for calls that no fast kernel
// fits. No layer of a ResNet may use it, nor a layout that the fast kernels lack (ncsp).
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/device/topology.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "models/losses/loss.h"
#include "ops/conv/conv2d.h"
#include "tests/matchers.h"
#include "tests/models/build.h"

using namespace bellows;

// Memory format and fusions of `toggles: all`, and those of plain configs.
struct Way {
  const MemoryFormat& format;
  const char* fast;
};
static const Way kWays[] = {{kNHWC, "true"}, {kNCHW, "false"}};

static ModulePtr training_net(const std::string& model, int64_t side, const Way& way) {
  ModulePtr net = build({{"name", model},
                         {"channels_last", way.fast},
                         {"fuse.bn_act", way.fast},
                         {"fuse.bn_add_act", way.fast}},
                        {.sample = {3, side, side}});
  net->train(true);
  return net;
}

// Implementations of the primitives in a training step, such as "onednn.brgconv:avx512_core".
static std::vector<std::string> implementations(Module& net, int64_t side, DType low,
                                                const Way& way) {
  const Tensor pixels({2, 3, side, side}, DType::f32), labels({2}, DType::i64);
  fill_normal(pixels, 0, 1, {.seed = 1});
  const Tensor x = contiguous(pixels, way.format);
  fill(labels, 3);
  const auto before = trace::counters();
  const Kernels use({.vendor = true});
  const Tensor loss = [&] {
    const Autocast cast(low);
    return criterion(net(x), labels, {});
  }();
  backward(loss);
  std::vector<std::string> names;
  for (const auto& [name, count] : trace::counters())
    if (name.starts_with("onednn.") && (!before.contains(name) || before.at(name) < count))
      names.push_back(name);
  return names;
}

static void expect_fast(const std::string& model, int64_t side) {
  if (!kernels::conv2d.has_vendor(Device::cpu)) GTEST_SKIP() << "built without oneDNN";
  const std::string flags = cpu_info("flags");
  for (const Way& way : kWays) {
    const ModulePtr net = training_net(model, side, way);
    for (const DType low : {DType::f32, DType::bf16, DType::f16}) {
      const char* const needed = low == DType::bf16 ? "avx512_bf16" : "avx512_fp16";
      if (is_low(low) && flags.find(needed) == std::string::npos) continue;
      const std::vector<std::string> names = implementations(*net, side, low, way);
      EXPECT_THAT(names, Contains(HasSubstr("conv"))) << low;
      for (const char* slow : {"ref", "ncsp"})
        EXPECT_THAT(names, testing::Each(Not(HasSubstr(slow)))) << low;
    }
  }
}

TEST(Implementations, OfResNet18OnSmallImagesAreFast) { expect_fast("resnet18", 32); }
TEST(Implementations, OfResNet50AreFast) { expect_fast("resnet50", 224); }
