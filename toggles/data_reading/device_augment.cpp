#include "plan/toggle.h"

// A plan with each transform that the device kernel implements.
static void learn_moved_digits(bellows::Plan& plan) {
  plan = bellows::load(plan, {{"data.transforms.0.name", {"random_crop"}},
                              {"data.transforms.0.size", {"28"}},
                              {"data.transforms.0.padding", {"2"}},
                              {"data.transforms.1.name", {"random_flip"}},
                              {"data.transforms.2.name", {"cutout"}},
                              {"data.transforms.2.size", {"4"}},
                              {"data.transforms.3.name", {"normalize"}}});
}

static const bellows::AddToggle toggle({
    .name = "device_augment",
    .aliases = {"gpu_transforms", "dali", "kornia"},
    .idea = "Pictures travel as bytes, and one kernel crops, flips, cuts out and normalizes them "
            "on the device, with the random numbers that the host would have drawn, and writes "
            "them as the first convolution reads them: in 16 bits, its channels padded.",
    .claim = "host-to-device bytes / 4, and so is what a worker writes; no figure for time",
    .cost = "what the host resizes or recolors first is rounded to bytes once more; a second "
            "batch on the device",
    .sources = "S1:26,30,47",
    .footprint = "augment.device_images",
    .same = bellows::Same::close,  // bitwise if no transform on the host changes pixels
    .tolerance = 1e-2,
    .default_value = "off",  // its gain has not been measured yet
    .needs = {"cuda"},
    .proof = learn_moved_digits,
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.data.loader.feed.device_augment = true; },
});
