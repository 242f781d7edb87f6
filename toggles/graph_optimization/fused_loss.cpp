#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "fused_loss",
    .aliases = {"softmax_with_cross_entropy", "fused_cross_entropy"},
    .idea = "Softmax and cross-entropy in one kernel; backward is one more, softmax - target.",
    .claim = "four ops of the loss become one; no figure in the seeds",
    .cost = "never seen; small next to a large net",
    .sources = "S1:38",
    .footprint = "fuse.loss",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .enable = [](bellows::Plan& plan, const std::string&) { plan.loss.fused = true; },
});
