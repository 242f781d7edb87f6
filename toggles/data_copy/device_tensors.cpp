#include "plan/toggle.h"

static const bellows::AddToggle device_tensors({
    .aliases = {"gpu_dataset", "data_on_device", "torch.zeros(device=)"},
    .elsewhere = "PyTorch: TensorDataset of CUDA tensors; Paddle: paddle.to_tensor(place=)",
    .what = "holds the whole data set on the device",
    .idea = "The whole data set lies on the device from the start, and a kernel gathers each batch "
            "there, instead of the host making and copying it.",
    .claim = "no host memory and no copy per step; no figure in the sources",
    .cost = "device memory for the whole data set; only for images of one size with the same "
            "transforms",
    .sources = "S3:101 S4:134",
    .code = "data/feeds/augmenting_feed.cpp: resident_feed",
    .footprint = "tensor.device_created",
    .same = bellows::Same::bitwise,
    .default_value = "off",  // the model has priority for device memory
    .needs = {"cuda"},
    .supersedes = {"num_workers", "prefetch_factor", "persistent_workers", "ring_queues",
                   "pin_memory", "non_blocking"},
    .measure = "configs/lenet.yaml",
    .no_gain = "configs/gallery/wide_layers.yaml data.batch_size=4096",
    .enable = [](bellows::Plan& plan) { plan.data.loader.feed.device_tensors = true; },
});
