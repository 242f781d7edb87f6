#include "plan/toggle.h"

// A data set of one batch, which the model memorizes in a few updates.
static constexpr const char* kOneBatch = R"(
data:
  name: shapes_jpeg
  train_size: 16
  test_size: 16
  transforms: [{name: random_resized_crop, size: 32, min_scale: 0.7}, normalize]
train.epochs: 12
)";

static const bellows::AddToggle scaled_decode({
    .aliases = {"draft", "partial_decode", "roi_decode"},
    .elsewhere = "PyTorch: none, but Image.draft of Pillow; Paddle: none",
    .what = "decodes JPEG only as large as needed",
    .idea = "Decodes only the part of a JPEG that the transforms read, and at 1/2, 1/4 or 1/8 of "
            "its size if the part is reduced to half or less, which computes fewer cosines.",
    .claim = "no figure in the sources; decoded pixels fall with the area of the crop",
    .cost = "the reduced image is only close to the mean of its pixels; damage outside the decoded "
            "part goes unnoticed",
    .sources = "S1:26 S1:47",
    .code = "data/images/jpeg.cpp: read_view",
    .footprint = "decode.scaled_images",
    .same = bellows::Same::statistical,
    .default_value = "off",
    .proof = kOneBatch,
    .measure =
        "configs/lessons/class2.yaml data.train_size=100 data.min_side=300 data.max_side=500",
    .no_gain = "configs/lessons/class2.yaml data.min_side=40 data.max_side=60",
    .enable = [](bellows::Plan& plan) { plan.data.loader.batch.scaled_decode = true; },
});
