#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "vectorized_ops",
    .aliases = {"bucketize", "searchsorted"},
    .idea = "Lesson layers run one op over the whole tensor, not a loop over levels.",
    .claim = "2n passes over the tensor become 1 for n levels",
    .cost = "harder to read; the loop stays beside it as the tested reference",
    .sources = "S3:102,103,104",
    .footprint = "ops.vectorized_calls",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .proof = [](bellows::Plan& plan) { plan.model.model.choose("levels_mlp"); },
    .example = "configs/lenet.yaml model=levels_mlp",
    .enable = [](bellows::Plan& plan, const std::string&) { plan.model.vectorized = true; },
});
