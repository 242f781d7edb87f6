#include "plan/toggle.h"

static const bellows::AddToggle prefetch_factor({
    .aliases = {"prefetch", "buffer_size", "use_buffer_reader"},
    .elsewhere = "PyTorch: DataLoader(prefetch_factor=F); Paddle: DataLoader(prefetch_factor=F)",
    .what = "lets workers make batches ahead",
    .idea = "Each worker makes up to F batches ahead instead of waiting until its batch is taken.",
    .claim = "no stalls when the loading time varies; little effect when it does not (source S3)",
    .cost = "memory for W x F batches",
    .sources = "S3:112,114",
    .code = "data/loader/batch_queue.cpp: make_queue",
    .footprint = "data.queue_max",
    .same = bellows::Same::bitwise,
    .values = {"0", "1", "2", "4"},
    .numbers = bellows::Bounds{.min = 0, .max = 64},
    .default_value = "2",
    .fast = "2",
    .needs = {"num_workers"},
    .proof = "data.num_workers: 2",
    .measure =
        "configs/lessons/prefetch.yaml --value 8 --blocks 2 --steps 100 'data.sim_slow=[0.05,12]'",
    .no_gain = "configs/lessons/prefetch.yaml --value 8 --blocks 2 --steps 100",
    .set =
        [](bellows::Plan& plan, const std::string& value) {
          plan.data.loader.workers.prefetch_factor = std::stoll(value);
        },
});
