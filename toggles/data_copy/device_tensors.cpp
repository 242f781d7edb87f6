#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "device_tensors",
    .aliases = {"gpu_dataset", "data_on_device", "torch.zeros(device=)"},
    .idea = "What the device needs is made on the device: the samples lie there from the start and "
            "a kernel gathers each batch, instead of making it on the host and moving it.",
    .claim = "no host memory and no copy in a step; no figure in the seeds",
    .cost = "the whole data set takes memory of the device; only for pictures of one size whose "
            "transforms are the same for all",
    .sources = "S3:101 S4:134",
    .footprint = "tensor.device_created",
    .same = bellows::Same::bitwise,
    .default_value = "off",  // the model has priority for device memory
    .needs = {"cuda"},
    .supersedes = {"num_workers", "prefetch_factor", "persistent_workers", "ring_queues",
                   "background_loader", "pin_memory", "non_blocking"},
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.data.loader.feed.device_tensors = true; },
});
