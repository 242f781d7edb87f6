#include "plan/toggle.h"

// A model with a chain that reads x twice, broadcasts parameters and contains constants.
static void prove(bellows::Plan& plan) {
  plan = bellows::load(
      plan, {{"model.name", {"layers"}},
             {"model.layers.0.name", {"conv2d"}},
             {"model.layers.0.out", {"4"}},
             {"model.layers.0.kernel", {"5"}},
             {"model.layers.0.stride", {"3"}},
             {"model.layers.1.name", {"pointwise"}},
             {"model.layers.1.expression", {"maximum(x, 0.1 * x) * (1 + scale) + shift / 2"}},
             {"model.layers.1.parameters.0", {"scale"}},
             {"model.layers.1.parameters.1", {"shift"}},
             {"model.layers.2.name", {"flatten"}},
             {"model.layers.3.name", {"linear"}},
             {"model.layers.3.out", {"10"}}});
}

static const bellows::AddToggle toggle({
    .name = "fused_pointwise",
    .aliases = {"torch.jit.script", "jit_fuser", "nvfuser", "pointwise_fusion"},
    .idea = "A chain of elementwise functions written as text (layer pointwise) is one pass over "
            "memory: one kernel, compiled at run time on a GPU; backward computes it again.",
    .claim = "k functions of a chain read and write memory once instead of k times; no figure in "
             "the seeds",
    .cost = "the first run of a new chain on a GPU waits for the compiler",
    .sources = "S1:38 S4:121",
    .footprint = "fuse.pointwise",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .proof = prove,
    .example = "",
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.model.rewrites.values["fuse.pointwise"] = 1; },
});
