// The network of airbench94_muon, for CIFAR-10: 94 % after 8 short epochs. Parameter names are
// those of the original. K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024.
#include "core/config/visitor.h"
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/layers/linear.h"
#include "models/layers/pointwise.h"
#include "models/layers/pool.h"
#include "models/module/build.h"

namespace bellows {

namespace {
struct AirbenchOptions {
  std::vector<int64_t> widths = {64, 256, 256};
};
void visit(Visitor& v, AirbenchOptions& o) {
  v.list("widths", o.widths, "channels of the groups of two convolutions",
         {.min = 1, .max = 1 << 20});
}

void conv(Layers& to, const std::string& name, int64_t out) {
  to.add<Conv2dLayer>(name, Conv2dLayerOptions{.out = out,
                                               .kernel = 3,
                                               .padding = 1,
                                               .bias = false,
                                               .init = Conv2dLayerOptions::Start::dirac});
}
// momentum 0.4: running statistics follow the latest batches, keeping 0.6 of the old value.
void norm_act(Layers& to, const std::string& number) {
  to.add<BatchNormLayer>("norm" + number,
                         BatchNormLayerOptions{.eps = 1e-12, .momentum = 0.4, .scale = false});
  to.add("activ" + number, "gelu");
}

ModulePtr group(LayerContext& context, int64_t width) {
  Layers group(context);
  conv(group, "conv1", width);
  group.add("pool", "max_pool2d");
  norm_act(group, "1");
  conv(group, "conv2", width);
  norm_act(group, "2");
  context.shape = group.shape();
  return group.take();
}
}  // namespace

static ModulePtr airbench(const AirbenchOptions& o, const ModelContext& context) {
  Layers net(context);
  net.add("whiten", "whitening").add("layers", [&](LayerContext& inside) {
    Layers layers(inside);
    layers.add("0", "gelu");
    for (size_t i = 0; i < o.widths.size(); ++i)
      layers.add(std::to_string(i + 1), [&](LayerContext& c) { return group(c, o.widths[i]); });
    layers.add<MaxPoolLayer>(std::to_string(o.widths.size() + 1), PoolLayerOptions{.kernel = 3});
    inside.shape = layers.shape();
    return layers.take();
  });
  net.add("flatten", "flatten");
  const PointwiseLayerOptions scale{.expression = cat("x / ", net.shape().numel()),
                                    .parameters = {}};
  return net
      .add<LinearLayer>("head", LinearLayerOptions{.out = context.classes,
                                                   .bias = false,
                                                   .init = LinearLayerOptions::Start::unit})
      .add<PointwiseLayer>("scale", scale)
      .take(context.classes);
}

static const AddEntry<MakeModel> airbench_entry("airbench",
                                                "airbench94: 6 convolutions for CIFAR-10",
                                                airbench);

}  // namespace bellows
