#include "plan/toggle.h"

// Each transform that the device kernel implements.
static constexpr const char* kAllTransforms = R"(
data.transforms: [{name: random_crop, size: 28, padding: 2}, random_flip, {name: cutout, size: 4},
                  normalize]
)";

static const bellows::AddToggle device_augment({
    .aliases = {"gpu_transforms", "dali", "kornia"},
    .elsewhere = "PyTorch: torchvision.transforms.v2 on CUDA tensors; Paddle: NVIDIA DALI",
    .what = "crops, flips and normalizes on the device",
    .idea = "Images are copied as bytes. One kernel crops, flips, cuts out and normalizes them on "
            "the device with the random values that the host would have drawn, and writes the "
            "dtype that the first convolution reads.",
    .claim = "a quarter of the bytes from host to device and per worker; no figure for time",
    .cost = "images that the host resizes or recolors first are rounded to bytes once more; memory "
            "for a second batch on the device",
    .sources = "S1:26,30,47",
    .code = "data/feeds/augmenting_feed.cpp: augmenting_feed",
    .footprint = "augment.device_images",
    .same = bellows::Same::close,  // bitwise if no transform on the host changes pixels
    .tolerance = 1e-2,
    .default_value = "off",  // its gain has not been measured yet
    .needs = {"cuda"},
    .proof = kAllTransforms,
    .measure = "configs/resnet18.yaml",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.data.loader.feed.device_augment = true; },
});
