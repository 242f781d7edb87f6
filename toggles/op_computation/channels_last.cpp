#include "plan/toggle.h"

static const bellows::AddToggle channels_last({
    .aliases = {"memory_format", "torch.channels_last", "nhwc", "data_format", "data_layout"},
    .elsewhere = "PyTorch: memory_format=torch.channels_last; Paddle: data_format=\"NHWC\"",
    .what = "stores images in NHWC",
    .idea = "Batches and weights are stored in NHWC, and outputs of convolutions follow their "
            "input. Tensor Cores and the fast CPU kernels compute in that order, so nothing is "
            "transposed.",
    .claim = "ResNet-50 in 16 bits 1.47x, ResNet-18 1.26x (timm's results on an RTX 3090); no "
             "figure in the sources",
    .cost = "no gain where batch_lanes computes the convolutions; slower if images are flattened "
            "before a linear layer, and in f32 without TF32 on a GPU",
    .sources = "S1:59 S4:122",
    .code = "core/tensor/copy.cpp: contiguous",
    .footprint = "layout.nhwc_ops",
    .same = bellows::Same::close,
    .proof = bellows::kResidualNet,
    .measure = "configs/lenet.yaml toggles.batch_lanes=off",
    .no_gain = "configs/lenet.yaml",
    .enable =
        [](bellows::Plan& plan) {
          plan.data.loader.batch.channels_last = true;
          plan.model.channels_last = true;
        },
});
