#include "plan/toggle.h"

static const bellows::AddToggle sync_free_logging({
    .aliases = {"loss.item"},
    .elsewhere = "PyTorch: loss.item() only in log steps; Paddle: float(loss) only in log steps",
    .what = "reads the losses once per log window",
    .idea = "Losses stay on the device; the host reads those of a log window at once.",
    .claim = "the host waits for the device at log lines only; no figure in the sources",
    .cost = "a loss that is not finite is noticed at the next log step only",
    .sources = "S1:79 S4:133",
    .code = "trainer/session/losses.cpp: Losses::read",
    .footprint = "log.deferred_reads",
    .same = bellows::Same::bitwise,
    .measure = "configs/lenet.yaml",
    .gains = "log.host_reads",
    .enable = [](bellows::Plan& plan) { plan.log.deferred = true; },
});
