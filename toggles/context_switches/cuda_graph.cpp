#include "plan/toggle.h"

static const bellows::AddToggle cuda_graph({
    .aliases = {"CUDAGraph", "cuda_graphs", "make_graphed_callables",
                "FLAGS_new_executor_use_cuda_graph"},
    .elsewhere = "PyTorch: torch.cuda.CUDAGraph; Paddle: paddle.device.cuda.graphs.CUDAGraph",
    .what = "replays an update with a single launch",
    .idea = "One update, from the forward pass to the optimizer, is captured once and replayed "
            "with one launch, so the host no longer starts each kernel.",
    .claim = "removes the launch overhead, a few microseconds per kernel; no figure in the sources",
    .cost = "memory: the graph keeps its own copy of all temporaries. Addresses and shapes are "
            "fixed, so a smaller batch at the end of an epoch is not captured.",
    .sources = "S1:36",
    .code = "trainer/session/captured_update.cpp: CapturedUpdate::run",
    .footprint = "graph.replays",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .needs = {"cuda", "caching_allocator"},
    .measure = "configs/lenet.yaml",
    .no_gain = "configs/resnet18.yaml model.width=64 data.batch_size=512",
    .enable = [](bellows::Plan& plan) { plan.train.cuda_graph = true; },
});
