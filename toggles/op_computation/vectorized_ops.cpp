#include "plan/toggle.h"

static const bellows::AddToggle vectorized_ops({
    .aliases = {"bucketize", "searchsorted"},
    .elsewhere = "PyTorch: torch.bucketize; Paddle: paddle.bucketize",
    .what = "one op instead of a loop over levels",
    .idea = "Lesson layers run one op on the whole tensor instead of a loop over levels.",
    .claim = "1 pass over the tensor instead of 2n for n levels",
    .cost = "harder to read; the loop is kept as the tested reference",
    .sources = "S3:102,103,104",
    .code = "ops/bucketize.cpp: quantile_levels",
    .footprint = "ops.vectorized_calls",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .proof = "model: levels_mlp",
    .measure = "configs/lenet.yaml model=levels_mlp",
    .no_gain = "configs/gallery/two_levels.yaml",
    .enable = [](bellows::Plan& plan) { plan.model.vectorized = true; },
});
