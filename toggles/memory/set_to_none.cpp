#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "set_to_none",
    .aliases = {"zero_grad(set_to_none=True)", "grad=None"},
    .idea = "Gradients are dropped, not overwritten with zeros; the first share assigns.",
    .claim = "one write of zeros and one addition for each parameter less; no figure in the seeds",
    .cost = "a parameter without a gradient keeps its momentum instead of decaying it",
    .sources = "S4:120",
    .footprint = "grad.dropped",
    .same = bellows::Same::bitwise,
    .enable = [](bellows::Plan& plan, const std::string&) { plan.optimizer.set_to_none = true; },
});
