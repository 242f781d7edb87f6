#include "plan/toggle.h"

static const bellows::AddToggle recompute({
    .aliases = {"activation_checkpointing", "gradient_checkpointing", "torch.utils.checkpoint"},
    .elsewhere = "PyTorch: torch.utils.checkpoint; Paddle: distributed.fleet.utils.recompute",
    .what = "computes activations again in backward",
    .idea = "A residual block saves only its input; backward runs the block again to get its "
            "activations. n: of n adjacent blocks only the first saves its input.",
    .claim = "a block saves only its input for backward, for a third more computation",
    .cost = "always slower; use it for models and batches that do not fit in memory",
    .sources = "S4:123",
    .code = "autograd/recompute.cpp: recompute",
    .footprint = "recompute.replays",
    .same = bellows::Same::bitwise,
    .values = {"off", "blocks", "2"},
    .numbers = bellows::Bounds{.min = 2, .max = 1024},
    .default_value = "off",
    .fast = "",
    .proof = bellows::kResidualNet,
    .measure = "configs/gallery/resnet.yaml",
    .gains = "memory",
    .set =
        [](bellows::Plan& plan, const std::string& value) {
          plan.model.rewrites.values["recompute"] = value == "blocks" ? 1 : std::stoll(value);
        },
});
