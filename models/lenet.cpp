// LeNet-5 with ReLU and max pooling, as it is trained today: 61,706 parameters for 28 x 28 images.
// Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document
// recognition", Proc. IEEE 1998.
#include "models/layers/conv2d.h"
#include "models/layers/linear.h"
#include "models/module/build.h"

namespace bellows {

static ModulePtr lenet(const NoOptions&, const ModelContext& context) {
  return Layers(context)
      .add<Conv2dLayer>("conv1", Conv2dLayerOptions{.out = 6, .kernel = 5, .padding = 2})
      .add("relu1", "relu")
      .add("pool1", "max_pool2d")  // (N, 6, 14, 14)
      .add<Conv2dLayer>("conv2", Conv2dLayerOptions{.out = 16, .kernel = 5})
      .add("relu2", "relu")
      .add("pool2", "max_pool2d")  // (N, 16, 5, 5)
      .add("flatten", "flatten")
      .add<LinearLayer>("fc1", LinearLayerOptions{.out = 120})
      .add("relu3", "relu")
      .add<LinearLayer>("fc2", LinearLayerOptions{.out = 84})
      .add("relu4", "relu")
      .add<LinearLayer>("fc3", LinearLayerOptions{.out = context.classes})
      .take(context.output);
}

static const AddEntry<MakeModel> lenet_entry("lenet",
                                             "LeNet-5: two convolutions, three linear layers",
                                             lenet);

}  // namespace bellows
