#include "plan/toggle.h"

static const bellows::AddToggle fused_conv_bn({
    .aliases = {"conv_bn_fuse_pass", "fuse_conv_bn_eval", "fold_bn"},
    .idea = "Evaluation folds scale and shift of a batch_norm into the weights of the convolution "
            "before it, so the norm needs no pass over memory. Training is unchanged.",
    .claim = "an evaluation reads and writes each normalized tensor once less; no figure in the "
             "seeds",
    .cost = "the weights are folded again whenever they change, which shows in short evaluations",
    .sources = "S1:38",
    .footprint = "fuse.conv_bn",
    .same = bellows::Same::close,
    .default_value = "off",
    .needs = {"eval_no_grad"},
    .proof = bellows::cat(bellows::kResidualNet, "eval.every: 1"),
    .example = "configs/resnet18.yaml --measure epoch data.train_size=1024",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.conv_bn"] = 1; },
});
