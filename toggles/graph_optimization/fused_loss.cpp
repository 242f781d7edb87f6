#include "plan/toggle.h"

static const bellows::AddToggle fused_loss({
    .aliases = {"softmax_with_cross_entropy", "fused_cross_entropy"},
    .idea = "Softmax and cross-entropy in one kernel; backward is another one: softmax - target.",
    .claim = "one op instead of four; no figure in the seeds",
    .cost = "none known; a small gain next to a large model",
    .sources = "S1:38",
    .footprint = "fuse.loss",
    .same = bellows::Same::close,
    .enable = [](bellows::Plan& plan) { plan.loss.fused = true; },
});
