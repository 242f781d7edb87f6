#include "plan/toggle.h"

static const bellows::AddToggle pin_memory({
    .aliases = {"page_locked", "use_pinned_memory"},
    .elsewhere = "PyTorch: DataLoader(pin_memory=True); Paddle: Tensor.pin_memory()",
    .what = "makes batches in page-locked memory",
    .idea = "Workers write batches directly into a few page-locked buffers, from which the GPU "
            "copies. From pageable memory the driver first copies to a buffer of its own.",
    .claim = "one copy less from host to device (source S2); little effect (source S3)",
    .cost = "page-locked memory is slow to allocate and unavailable to other processes",
    .sources = "S2:89 S3:109 S4:117",
    .code = "core/tensor/pinned.h: pinned",
    .footprint = "data.pinned_copy",
    .same = bellows::Same::bitwise,
    .needs = {"cuda"},
    .measure = "configs/lenet.yaml",
    .no_gain = "configs/gallery/wide_layers.yaml data.batch_size=4096",
    .enable = [](bellows::Plan& plan) { plan.data.loader.batch.pin_memory = true; },
});
