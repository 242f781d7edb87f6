#!/usr/bin/env python3
"""The peer's training step: PyTorch, timed the way Bellows is timed.

    torch_step.py --model lenet --batch 64 --precision f32 --threads 2

One step is zero_grad(set_to_none) + forward + cross-entropy + backward + SGD(momentum 0.9),
on one batch that is already in memory. Prints one JSON line: median and quartiles of the wall
times, minimum and median of the process CPU times, samples per second, library versions.
`--compile` adds torch.compile; `--device cuda` waits for the device after each step.
"""
import argparse
import json
import os
import statistics
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="lenet",
                   choices=["lenet", "tuomaso", "resnet18_cifar", "resnet18", "resnet50"])
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--precision", choices=["f32", "bf16", "f16"], default="f32")
    p.add_argument("--layout", choices=["nchw", "nhwc"], default="nhwc")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--min-steps", type=int, default=5)
    p.add_argument("--device", default="cpu")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--fused", action="store_true", help="the fused optimizer (PyTorch 2)")
    return p.parse_args()


a = arguments()
os.environ["OMP_NUM_THREADS"] = str(a.threads)
import torch  # noqa: E402  (after the thread count is set)
from torch import nn  # noqa: E402

torch.set_num_threads(a.threads)
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True


class LeNet(nn.Sequential):
    """conv 6@5x5 pad 2, pool, conv 16@5x5, pool, 120, 84, 10: 61,706 parameters."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


class Tuomaso(nn.Sequential):
    """The 99 % in 0.76 s MNIST network: 24@5x5, 32@3x3, each with max pooling, then 256 and 10."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 24, 5), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(24, 32, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
            nn.Linear(800, 256), nn.ReLU(), nn.Linear(256, 10))


def model_and_batch():
    if a.model == "lenet":
        return LeNet(), (1, 28, 28), 10
    if a.model == "tuomaso":
        return Tuomaso(), (1, 28, 28), 10
    import torchvision
    if a.model == "resnet18_cifar":
        m = torchvision.models.resnet18(num_classes=10)
        m.conv1, m.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
        return m, (3, 32, 32), 10
    return getattr(torchvision.models, a.model)(), (3, 224, 224), 1000


model, shape, classes = model_and_batch()
layout = torch.channels_last if a.layout == "nhwc" else torch.contiguous_format
model = model.to(a.device).to(memory_format=layout).train()
x = torch.randn(a.batch, *shape, device=a.device).to(memory_format=layout)
y = torch.randint(classes, (a.batch,), device=a.device)
loss_of = nn.CrossEntropyLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                      **({"fused": True} if a.fused else {}))
half = {"bf16": torch.bfloat16, "f16": torch.float16}.get(a.precision)
has_scaler = hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler")
scaler = torch.amp.GradScaler(a.device, enabled=a.precision == "f16") if has_scaler else None
run = torch.compile(model) if a.compile else model


def step():
    opt.zero_grad(set_to_none=True)
    with torch.autocast(torch.device(a.device).type, dtype=half, enabled=half is not None):
        loss = loss_of(run(x), y)
    if scaler is not None and scaler.is_enabled():
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    else:
        loss.backward()
        opt.step()
    return loss


def synchronize():
    if a.device != "cpu":
        torch.cuda.synchronize()


for _ in range(a.warmup):
    step()
synchronize()
times, cpu_times, start = [], [], time.perf_counter()
while len(times) < a.min_steps or time.perf_counter() - start < a.seconds:
    t, cpu = time.perf_counter(), time.process_time()
    step()
    synchronize()
    times.append(time.perf_counter() - t)
    cpu_times.append(time.process_time() - cpu)
q = statistics.quantiles(times, n=4)
print(json.dumps({
    "peer": "torch " + torch.__version__, "model": a.model, "batch": a.batch,
    "precision": a.precision, "layout": a.layout, "threads": torch.get_num_threads(),
    "device": a.device, "compile": a.compile, "fused": a.fused, "steps": len(times),
    "ms_median": round(1e3 * q[1], 4), "ms_q1": round(1e3 * q[0], 4),
    "ms_q3": round(1e3 * q[2], 4), "ms_cpu_min": round(1e3 * min(cpu_times), 4),
    "ms_cpu_median": round(1e3 * statistics.median(cpu_times), 4),
    "ips": round(a.batch / q[1], 2)}))
