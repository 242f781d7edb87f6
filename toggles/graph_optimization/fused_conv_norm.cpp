#include "core/config/values.h"
#include "plan/toggle.h"

// A model with a residual block of two convolutions, small and shallow, so that rounding errors do
// not grow during training.
static void prove(bellows::Plan& plan) {
  plan = bellows::load(plan, {{"optimizer.lr", {"0.01"}},
                              {"train.epochs", {"3"}},
                              {"model.name", {"layers"}},
                              {"model.layers.0.name", {"conv2d"}},
                              {"model.layers.0.out", {"8"}},
                              {"model.layers.0.stride", {"3"}},
                              {"model.layers.1.name", {"residual"}},
                              {"model.layers.1.layers.0.name", {"conv2d"}},
                              {"model.layers.1.layers.0.out", {"8"}},
                              {"model.layers.1.layers.0.padding", {"1"}},
                              {"model.layers.1.layers.0.bias", {"false"}},
                              {"model.layers.1.layers.1.name", {"batch_norm"}},
                              {"model.layers.1.layers.2.name", {"relu"}},
                              {"model.layers.1.layers.3.name", {"conv2d"}},
                              {"model.layers.1.layers.3.out", {"8"}},
                              {"model.layers.1.layers.3.padding", {"1"}},
                              {"model.layers.1.layers.3.bias", {"false"}},
                              {"model.layers.1.layers.4.name", {"batch_norm"}},
                              {"model.layers.2.name", {"flatten"}},
                              {"model.layers.3.name", {"linear"}},
                              {"model.layers.3.out", {"10"}}});
}

static const bellows::AddToggle toggle({
    .name = "fused_conv_norm",
    .aliases = {"ConvBNfprop", "ConvBNwgrad", "conv_bn_fusion", "genstats"},
    .idea = "A residual block is one op that keeps what its convolutions gave and nothing between "
            "them. On a GPU in fp16 they normalize their input on the way in and sum up their "
            "output on the way out.",
    .claim = "ResNet-50 moves 341 -> 262 MB an image beyond fused_bn_act, in fp16 on Ampere and "
             "Hopper; MLPerf's ResNet-50 uses it",
    .cost = "anywhere but with amp: fp16 on such a GPU: there the block runs in separate kernels, "
            "which normalize again in backward; that saves memory, and costs time",
    .sources = "S1:38",
    .footprint = "fuse.conv_norm",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .default_value = "off",
    .fast = "",
    .supersedes = {"fused_bn_act", "fused_bn_add_act", "fused_add_act"},
    .proof = prove,
    .example = "configs/resnet18.yaml",
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.model.rewrites.values["fuse.conv_norm"] = 1; },
});
