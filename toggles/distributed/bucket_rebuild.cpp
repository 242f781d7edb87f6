#include "plan/toggle.h"

static const bellows::AddToggle bucket_rebuild({
    .aliases = {"static_graph", "rebuild_buckets"},
    .elsewhere = "PyTorch: Reducer::rebuild_buckets; Paddle: Reducer::RebuildGruops",
    .what = "orders buckets as gradients come ready",
    .idea = "Buckets begin in the reverse order of registration. After the first update they are "
            "rebuilt in the order in which gradients became ready on rank 0, so that no bucket "
            "waits for a late gradient.",
    .claim = "models that register modules in another order than they run overlap as well as the "
             "others; no figure in the sources",
    .cost = "one broadcast and new buckets, once",
    .sources = "S4:139",
    .code = "dist/reducer.cpp: Reducer::rebuild",
    .footprint = "dist.rebuilds",
    .same = bellows::Same::close,
    .needs = {"ranks", "ddp", "overlap_allreduce"},
    .measure = "configs/gallery/resnet_ddp.yaml",
    .no_gain = "configs/ddp/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.dist.rebuild = true; },
});
