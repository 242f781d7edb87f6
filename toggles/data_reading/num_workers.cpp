#include "plan/toggle.h"

static const bellows::AddToggle num_workers({
    .aliases = {"workers", "num_workers>0", "dataloader_num_workers", "worker_num"},
    .elsewhere = "PyTorch: DataLoader(num_workers=W); Paddle: DataLoader(num_workers=W)",
    .what = "loads batches in worker threads",
    .idea = "W threads load and transform batches while the step computes, instead of before it. "
            "auto: starts with one, and after 48 batches takes as many as hide the loading.",
    .claim = "batch_cost = max(C, L / W) instead of L + C: twice the speed in the source's case",
    .cost = "each worker costs memory (prefetch_factor batches), a core that the step may need, "
            "and start-up time in each epoch",
    .sources = "S0:12,13 S1:27,28,46,49,50 S2:88 S3:111,113 S4:117",
    .code = "data/loader/loader.cpp: Loader::start_workers",
    .footprint = "data.worker_batches",
    .same = bellows::Same::bitwise,
    .values = {"0", "1", "2", "4", "auto"},
    .numbers = bellows::Bounds{.min = 0, .max = 256},
    .default_value = "1",
    .fast = "1",
    .measure = "configs/lessons/deeplab_workers.yaml --value 4",
    .no_gain = "configs/lenet.yaml --value 4",
    .set =
        [](bellows::Plan& plan, const std::string& value) {
          plan.data.loader.workers.num_workers =
              value == "auto" ? bellows::kAutoWorkers : std::stoll(value);
        },
});
