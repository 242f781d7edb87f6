#include "plan/toggle.h"

static const bellows::AddToggle persistent_workers({
    .elsewhere = "PyTorch: DataLoader(persistent_workers=True); Paddle: the same argument",
    .what = "keeps the workers between epochs",
    .idea = "Workers are kept between epochs instead of being started for each one.",
    .claim =
        "shorter gap between epochs, epoch_gap_s in metrics.jsonl: 7 s instead of 11 s with 10 "
        "worker processes (source S3)",
    .cost = "the workers' buffers stay allocated during evaluation",
    .sources = "S1:35 S3:115",
    .code = "data/loader/loader.cpp: Loader::start_workers",
    .footprint = "data.worker_reuses",
    .same = bellows::Same::bitwise,
    .needs = {"num_workers"},
    .proof = "train.epochs: 2",
    .measure = "configs/lenet.yaml --measure epoch data.train_size=640 toggles.num_workers=4",
    .no_gain = "configs/lenet.yaml --measure epoch",
    .gains = "data.worker_starts",
    .enable = [](bellows::Plan& plan) { plan.data.loader.workers.persistent_workers = true; },
});
