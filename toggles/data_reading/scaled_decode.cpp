#include "plan/toggle.h"

// A data set of one batch, which the model memorizes in a few updates.
static void learn_jpegs(bellows::Plan& plan) {
  plan = bellows::load(plan, {{"data.name", {"shapes_jpeg"}},
                              {"data.train_size", {"16"}},
                              {"data.test_size", {"16"}},
                              {"data.transforms.0.name", {"random_resized_crop"}},
                              {"data.transforms.0.size", {"32"}},
                              {"data.transforms.0.min_scale", {"0.7"}},
                              {"data.transforms.1.name", {"normalize"}},
                              {"train.epochs", {"12"}}});
}

static const bellows::AddToggle toggle({
    .name = "scaled_decode",
    .aliases = {"draft", "partial_decode", "roi_decode"},
    .idea = "Of a JPEG only the part that the transforms look at is decoded, and if that becomes "
            "less than half as large, at 1/2, 1/4 or 1/8 of its size, which costs fewer cosines.",
    .claim = "no figure in the seeds; the pixels decoded fall with the area of the crop",
    .cost = "a reduced picture is not quite the mean of its pixels; damage behind the part goes "
            "unseen",
    .sources = "S1:26 S1:47",
    .footprint = "decode.scaled_images",
    .same = bellows::Same::statistical,
    .default_value = "off",
    .proof = learn_jpegs,
    .example = "configs/plain/resnet18.yaml data=shapes_jpeg",
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.data.loader.batch.scaled_decode = true; },
});
