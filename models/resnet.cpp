// ResNet v1.5 (the stride is on the 3x3 convolution), with torchvision's parameter names.
// He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016.
#include "core/config/visitor.h"
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/layers/linear.h"
#include "models/layers/pool.h"
#include "models/layers/residual.h"

namespace bellows {

namespace {

enum class Stem { automatic, imagenet, cifar };
struct ResNetOptions {
  Stem stem = Stem::automatic;
  int64_t width = 64;  // channels of the first stage
};
void visit(Visitor& v, ResNetOptions& o) {
  v("stem", o.stem, {"auto", "imagenet", "cifar"},
    "7x7 stride 2 and a pool, or 3x3; auto: the latter for images below 64 pixels");
  v("width", o.width, "channels of the first stage", {.min = 1, .max = 65536});
}

// Blocks per stage, and their kind.
struct Depth {
  std::array<int64_t, 4> blocks;
  bool bottleneck;  // true: 1x1, 3x3, 1x1 with four times the channels; false: two 3x3
};

void conv(Layers& to, const std::string& name, int64_t out, int64_t kernel, int64_t stride) {
  to.add<Conv2dLayer>(name, Conv2dLayerOptions{.out = out,
                                               .kernel = kernel,
                                               .stride = stride,
                                               .padding = kernel / 2,
                                               .bias = false,
                                               .init = Conv2dLayerOptions::Start::kaiming_normal});
}
void conv_bn(Layers& to, const std::string& number, int64_t out, int64_t kernel, int64_t stride) {
  conv(to, "conv" + number, out, kernel, stride);
  to.add("bn" + number, "batch_norm");
}

void add_stem(Layers& net, const ResNetOptions& o, int64_t side) {
  const bool cifar = o.stem == Stem::cifar || (o.stem == Stem::automatic && side < 64);
  conv_bn(net, "1", o.width, cifar ? 3 : 7, cifar ? 1 : 2);
  net.add("relu", "relu");
  if (cifar) return;
  net.add<MaxPoolLayer>("maxpool", PoolLayerOptions{.kernel = 3, .stride = 2, .padding = 1});
}

ModulePtr make_block(LayerContext& context, bool bottleneck, int64_t width, int64_t stride) {
  const int64_t out = bottleneck ? 4 * width : width;
  const auto layers = [&](Layers& to) {
    if (bottleneck) {
      conv_bn(to, "1", width, 1, 1);
      to.add("relu1", "relu");
      conv_bn(to, "2", width, 3, stride);
      to.add("relu2", "relu");
      conv_bn(to, "3", out, 1, 1);
    } else {
      conv_bn(to, "1", width, 3, stride);
      to.add("relu1", "relu");
      conv_bn(to, "2", width, 3, 1);
    }
  };
  const bool same = stride == 1 && context.shape[0] == out;
  const auto shortcut = [&](Layers& to) {
    if (same) return;
    conv(to, "0", out, 1, stride);
    to.add("1", "batch_norm");
  };
  return residual_block(context, layers, shortcut, "downsample",
                        [](Layers& to) { to.add("relu", "relu"); });
}

}  // namespace

template <Depth depth>
static ModulePtr resnet(const ResNetOptions& o, const ModelContext& context) {
  CHECK(context.shape.rank() == 3, "resnet: needs images (C, H, W), got ", context.shape);
  Layers net(context);
  add_stem(net, o, context.shape[1]);
  for (int64_t i = 0; i < 4; ++i)
    net.add("layer" + std::to_string(i + 1), [&](LayerContext& c) {
      Layers stage(c);
      for (int64_t b = 0; b < depth.blocks[i]; ++b)
        stage.add(std::to_string(b), [&](LayerContext& inside) {
          return make_block(inside, depth.bottleneck, o.width << i, i > 0 && b == 0 ? 2 : 1);
        });
      c.shape = stage.shape();
      return stage.take();
    });
  return net.add("avgpool", "adaptive_avg_pool2d")
      .add("flatten", "flatten")
      .add<LinearLayer>("fc", LinearLayerOptions{.out = context.classes})
      .take(context.output);
}

static const AddEntry<MakeModel> resnet18("resnet18", "ResNet-18: 8 blocks of two 3x3",
                                          resnet<Depth{{2, 2, 2, 2}, false}>);
static const AddEntry<MakeModel> resnet34("resnet34", "ResNet-34: 16 blocks of two 3x3",
                                          resnet<Depth{{3, 4, 6, 3}, false}>);
static const AddEntry<MakeModel> resnet50("resnet50", "ResNet-50 v1.5: 16 bottlenecks",
                                          resnet<Depth{{3, 4, 6, 3}, true}>);

}  // namespace bellows
