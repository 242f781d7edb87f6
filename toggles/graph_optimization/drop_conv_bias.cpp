#include "plan/residual_net.h"
#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "drop_conv_bias",
    .aliases = {"bias=False", "bias_before_bn"},
    .idea = "A convolution in front of a batch normalization needs no bias: the mean takes it out "
            "again, and its gradient is 0.",
    .claim = "an addition in forward and a sum in backward less for each such layer; no figure in "
             "the seeds",
    .cost = "the names in a checkpoint change; idle where models leave that bias out anyway",
    .sources = "S4:119",
    .footprint = "model.conv_biases_dropped",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .proof = bellows::residual_net,
    .example = "configs/resnet18.yaml 'model={name: layers, layers: [{name: conv2d, out: 16, "
               "kernel: 3}, batch_norm, relu, adaptive_avg_pool2d, flatten, {name: linear, "
               "out: 10}]}'",
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.model.rewrites.values["drop_conv_bias"] = 1; },
});
