#include "plan/toggle.h"

static const bellows::AddToggle set_to_none({
    .aliases = {"zero_grad(set_to_none=True)", "grad=None"},
    .idea = "Gradients are released instead of overwritten with zeros; the first contribution is "
            "assigned.",
    .claim = "saves a write and an addition per parameter; no figure in the seeds",
    .cost = "none known",
    .sources = "S4:120",
    .footprint = "grad.dropped",
    .same = bellows::Same::bitwise,
    .enable = [](bellows::Plan& plan) { plan.optimizer.set_to_none = true; },
});
