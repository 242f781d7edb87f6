#include "plan/toggle.h"

static const bellows::AddToggle thread_budget({
    .aliases = {"OMP_NUM_THREADS", "set_num_threads", "torch.set_num_threads"},
    .elsewhere = "PyTorch: torch.set_num_threads; Paddle: OMP_NUM_THREADS",
    .what = "divides the cores among the ranks",
    .idea = "Limits the threads of a rank to its share of the cores: allowed cores / ranks on this "
            "host.",
    .claim = "no more threads than cores, whatever each rank asks for; trainer bench oversub "
             "shows what more of them cost",
    .cost = "no effect if no more threads are requested than there are cores; other runs on the "
            "machine are not counted, and trainer doctor says what to set for them",
    .sources = "S0:20 S4:128",
    .code = "core/device/threads.cpp: apply",
    .footprint = "cpu.threads_withheld",
    .same = bellows::Same::bitwise,
    .proof = bellows::cat("{deterministic: on, threads.threads: ", bellows::allowed_cores() + 1,
                          "}"),
    .measure = "configs/gallery/resnet.yaml deterministic=on threads.threads=16",
    .no_gain = "configs/lenet.yaml deterministic=on threads.threads=3",
    .enable = [](bellows::Plan& plan) { plan.threads.budget = true; },
});
