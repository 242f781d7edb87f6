#include "plan/residual_net.h"
#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "channels_last",
    .aliases = {"memory_format", "torch.channels_last", "nhwc", "data_format", "data_layout"},
    .idea = "Batches are made in NHWC and weights kept so; what a convolution gives follows its "
            "input. Tensor Cores and the fast CPU kernels compute in that order, and nothing is "
            "transposed on the way.",
    .claim = "ResNet-50 in 16 bits 1.47x, ResNet-18 1.26x (timm's results on an RTX 3090); no "
             "figure in the seeds",
    .cost = "without vendor kernels, whose plain twins compute in NCHW; where images are flattened "
            "before a linear layer; f32 without TF32 on a GPU",
    .sources = "S1:59 S4:122",
    .footprint = "layout.nhwc_ops",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .proof = bellows::residual_net,
    .example = "configs/resnet18.yaml",
    .enable =
        [](bellows::Plan& plan, const std::string&) {
          plan.data.loader.batch.channels_last = true;
          plan.model.channels_last = true;
        },
});
