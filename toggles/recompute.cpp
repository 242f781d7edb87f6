#include "toggles/residual_net.h"
#include "toggles/toggle.h"

static const bellows::AddToggle toggle({
    .name = "recompute",
    .aka = {"activation_checkpointing", "gradient_checkpointing", "torch.utils.checkpoint"},
    .key_point = "memory",
    .idea = "A residual block keeps its input only; backward runs the block again to have what it "
            "needs in between.",
    .claim = "what a block saves for backward falls to its input, for a third more computation",
    .hurts = "always in time; it is for nets and batches that do not fit",
    .sources = "S4:123",
    .footprint = "recompute.replays",
    .same = bellows::Same::bitwise,
    .values = {"off", "blocks"},
    .by_default = "off",
    .fast = "",
    .proof = bellows::residual_net,
    .enable = [](bellows::Plan& plan, const std::string&) { plan.model.recompute = true; },
});
