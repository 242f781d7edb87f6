#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "cuda_graph",
    .aliases = {"CUDAGraph", "cuda_graphs", "make_graphed_callables",
                "FLAGS_new_executor_use_cuda_graph"},
    .idea = "A whole update is captured once, forward to optimizer, and replayed with one launch: "
            "the host no longer starts each kernel.",
    .claim = "removes the cost of launches, some microseconds for each kernel; no figure in the "
             "seeds",
    .cost = "memory: what an update needs is kept for it alone; addresses and shapes are fixed, so "
            "pictures that grow (progressive_resize) are captured anew for each size",
    .sources = "S1:36",
    .footprint = "graph.replays",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .needs = {"cuda", "caching_allocator"},
    .proof = [](bellows::Plan& plan) { plan.allocator.caching = true; },
    .enable = [](bellows::Plan& plan, const std::string&) { plan.train.cuda_graph = true; },
});
