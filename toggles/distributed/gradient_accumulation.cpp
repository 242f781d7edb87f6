#include "plan/toggle.h"

static const bellows::AddToggle gradient_accumulation({
    .aliases = {"accumulate_grad_batches", "gradient_accumulation_steps", "gradient_merge",
                "update_freq", "accum_iter"},
    .elsewhere = "PyTorch: several backward() per step; Paddle: DistributedStrategy.gradient_merge",
    .what = "sums gradients over parts of a batch",
    .idea = "Each batch passes through the model in N parts whose gradients add up to one update. "
            "An update still takes data.batch_size samples.",
    .claim = "activation memory falls to 1 / N for the same update; slower, not faster",
    .cost = "N times the kernel launches, smaller products, and batch statistics per part",
    .sources = "S4:138",
    .code = "trainer/session/training_step.cpp: TrainingStep::train_on",
    .footprint = "update.accumulated",
    .same = bellows::Same::close,
    .statistical_where = "norm.batches",
    .values = {"1", "2", "4"},
    .numbers = bellows::Bounds{.min = 1, .max = 4096},
    .default_value = "1",
    .fast = "",
    .measure = "configs/gallery/resnet.yaml --value 4",
    .gains = "memory",
    .set = [](bellows::Plan& plan,
              const std::string& value) { plan.train.accumulate = std::stoll(value); },
});
