#include "plan/toggle.h"

static const bellows::AddToggle set_to_none({
    .aliases = {"zero_grad(set_to_none=True)", "grad=None"},
    .elsewhere = "PyTorch: zero_grad(set_to_none=True); Paddle: clear_grad(set_to_zero=False)",
    .what = "releases gradients, writes no zeros",
    .idea = "Gradients are released instead of overwritten with zeros; the first contribution is "
            "assigned.",
    .claim = "saves a write and an addition per parameter; no figure in the sources",
    .cost = "none known",
    .sources = "S4:120",
    .code = "autograd/backward.cpp: zero_grad",
    .footprint = "grad.dropped",
    .same = bellows::Same::bitwise,
    .measure = "configs/gallery/large_layers.yaml",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.optimizer.set_to_none = true; },
});
