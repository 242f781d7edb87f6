#include "plan/toggle.h"

// The chain reads x twice, broadcasts parameters and contains constants.
static constexpr const char* kChain = R"(
model:
  name: layers
  layers:
    - {name: conv2d, out: 4, kernel: 5, stride: 3}
    - name: pointwise
      expression: "maximum(x, 0.1 * x) * (1 + scale) + shift / 2"
      parameters: [scale, shift]
    - flatten
    - {name: linear, out: 10}
)";

static const bellows::AddToggle fused_pointwise({
    .aliases = {"torch.jit.script", "jit_fuser", "nvfuser", "pointwise_fusion"},
    .elsewhere = "PyTorch: torch.jit.script, torch.compile; Paddle: CINN",
    .what = "runs a chain of functions in one kernel",
    .idea = "A chain of elementwise functions, written as text (layer pointwise), is one pass over "
            "memory: one kernel, compiled at run time on a GPU. Backward computes the chain again.",
    .claim = "k functions read and write memory once instead of k times; no figure in the sources",
    .cost = "the first run of a new chain on a GPU waits for the compiler",
    .sources = "S1:38 S4:121",
    .code = "ops/chain/pointwise.cpp: pointwise",
    .footprint = "fuse.pointwise",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .proof = kChain,
    .measure = "configs/gallery/chain.yaml",
    .no_gain = "configs/gallery/short_chain.yaml",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.pointwise"] = 1; },
});
