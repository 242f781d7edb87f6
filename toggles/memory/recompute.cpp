#include "plan/residual_net.h"
#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "recompute",
    .aliases = {"activation_checkpointing", "gradient_checkpointing", "torch.utils.checkpoint"},
    .idea = "A residual block keeps its input only; backward runs the block again to have what it "
            "needs in between. A number n: of n blocks in a row only the first keeps it.",
    .claim = "what a block saves for backward falls to its input, for a third more computation",
    .cost = "always in time; it is for nets and batches that do not fit",
    .sources = "S4:123",
    .footprint = "recompute.replays",
    .same = bellows::Same::bitwise,
    .values = {"off", "blocks", "2"},
    .numbers = bellows::Bounds{.min = 2, .max = 1024},
    .default_value = "off",
    .fast = "",
    .proof = bellows::residual_net,
    .example = "configs/resnet18.yaml",
    .enable =
        [](bellows::Plan& plan, const std::string& value) {
          plan.model.rewrites.values["recompute"] = value == "blocks" ? 1 : std::stoll(value);
        },
});
