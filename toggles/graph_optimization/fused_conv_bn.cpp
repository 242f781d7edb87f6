#include "plan/residual_net.h"
#include "plan/toggle.h"

static void prove(bellows::Plan& plan) {
  bellows::residual_net(plan);
  plan.eval = {.every = 1, .no_grad = true};
}

static const bellows::AddToggle toggle({
    .name = "fused_conv_bn",
    .aliases = {"conv_bn_fuse_pass", "fuse_conv_bn_eval", "fold_bn"},
    .idea = "Evaluation folds scale and shift of a norm into the weights of the convolution before "
            "it, so that the norm takes no pass over memory. Training stays as it is.",
    .claim = "an evaluation reads and writes each normalized tensor once less; no figure in the "
             "seeds",
    .cost = "where weights change between every two evaluations of few batches: folding is done "
            "anew for each version",
    .sources = "S1:38",
    .footprint = "fuse.conv_bn",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .default_value = "off",
    .needs = {"eval_no_grad"},
    .proof = prove,
    .example = "configs/resnet18.yaml --measure epoch",
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.model.rewrites.values["fuse.conv_bn"] = 1; },
});
