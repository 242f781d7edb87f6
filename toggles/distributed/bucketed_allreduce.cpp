#include "plan/toggle.h"

static const bellows::AddToggle bucketed_allreduce({
    .aliases = {"fuse_all_reduce_ops", "fuse_grad_size_in_MB", "tensor_fusion"},
    .elsewhere = "PyTorch: DDP(bucket_cap_mb=25); Paddle: DataParallel(comm_buffer_size=25)",
    .what = "sends gradients in buckets",
    .idea = "Gradients travel together in flat buckets of dist.bucket_mb, not each on its own. The "
            "first bucket is smaller (dist.first_bucket_mb), so that communication begins early.",
    .claim = "one collective per 25 MiB, not per parameter: 5 for ResNet-50 instead of 161, each "
             "of which would cost a round trip; no figure in the sources",
    .cost = "memory of the size of the gradients, and their copies into buckets and back, both "
            "without gradient_as_bucket_view",
    .sources = "S4:139",
    .code = "dist/buckets.cpp: plan_buckets",
    .footprint = "dist.bucketed_grads",
    .same = bellows::Same::close,
    .needs = {"ranks", "ddp"},
    .measure = "configs/gallery/resnet_ddp.yaml",
    .no_gain = "configs/ddp/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.dist.bucketed = true; },
});
