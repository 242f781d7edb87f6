#include "plan/toggle.h"

static const bellows::AddToggle kernel_autotune({
    .aliases = {"cudnn_benchmark", "cudnn.benchmark", "exhaustive_search", "autotune",
                "FLAGS_cudnn_exhaustive_search"},
    .elsewhere = "PyTorch: torch.backends.cudnn.benchmark; Paddle: paddle.incubate.autotune",
    .what = "picks the fastest algorithm for each conv",
    .idea = "In the first updates (train.tuning_window) each convolution runs every algorithm that "
            "supports it; from then on it uses the fastest. The choice is kept on disk.",
    .claim = "a heuristic is cheap, but not always right; no figure in the sources",
    .cost = "seconds at the start, again for each new shape. Two machines or two searches may "
            "choose differently; then losses differ in the last digits",
    .sources = "S1:52,53,80 S4:132",
    .code = "core/tensor/autotune.cpp: fastest",
    .footprint = "autotune.hits",
    .same = bellows::Same::close,
    .values = {"heuristic", "benchmark"},
    .default_value = "heuristic",
    .fast = "benchmark",
    .nondeterministic_value = "benchmark",
    // A GPU needs vendor kernels. Short searches, because a stand-in for a GPU is slow.
    .proof = "kernels: {vendor: true, search_seconds: 0.1}",
    .measure = "configs/plain/lenet.yaml",
    .no_gain = "configs/lenet.yaml toggles.batch_lanes=off",
    .enable = [](bellows::Plan& plan) { plan.kernels.autotune = bellows::Autotune::benchmark; },
});
