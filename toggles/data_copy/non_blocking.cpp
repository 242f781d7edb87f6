#include "plan/toggle.h"

static const bellows::AddToggle non_blocking({
    .aliases = {"async_copy", "prefetch_to_device", "use_double_buffer"},
    .elsewhere = "PyTorch: Tensor.to(non_blocking=True); Paddle: Tensor.cuda(blocking=False)",
    .what = "copies the next batch beside the step",
    .idea = "The next batch is copied on a separate stream while the step computes. Events order "
            "the two streams, and the host does not wait.",
    .claim = "hides the copy behind a longer step; little effect (source S3)",
    .cost = "memory for a second batch on the device; without pin_memory the driver makes the host "
            "wait",
    .sources = "S1:31 S3:110 S4:117",
    .code = "data/feeds/device_feed.cpp: CopyFeed",
    .footprint = "copy.async",
    .same = bellows::Same::bitwise,
    .needs = {"cuda"},
    .proof = "data.pin_memory: true",
    .measure = "configs/lenet.yaml",
    .no_gain = "configs/lenet.yaml toggles.pin_memory=off",
    .enable = [](bellows::Plan& plan) { plan.data.loader.feed.non_blocking = true; },
});
