#!/usr/bin/env python3
"""PyTorch's training step, timed as Bellows' is.

    torch_step.py --model lenet --batch 64 --precision f32 --threads 2
    torch_step.py --model resnet50 --batch 256 --precision bf16 --device cuda --fused --compile

One step is zero_grad(set_to_none) + forward + cross-entropy + backward + SGD(momentum 0.9, weight
decay 1e-4), on one batch of random values in memory. Prints one JSON line: median and quartiles of
the steps of a block, wall time, samples per second, memory, library versions. On a GPU, a step is
the time between two events, one after each step; the wall time is of the whole block, from an idle
device to an idle device.

`--compile` is torch.compile(mode="max-autotune"); `--graph` captures the whole step, including the
update, as one CUDA graph. `--resident`: one line after the warm-up, then one per line on stdin.
"""
import argparse
import json
import math
import os
import resource
import statistics
import sys
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="lenet",
                   choices=["lenet", "resnet18_cifar", "resnet18", "resnet50"])
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--image", type=int, default=224, help="side of a ResNet's images")
    p.add_argument("--precision", choices=["f32", "bf16", "f16"], default="f32")
    p.add_argument("--tf32", action="store_true", help="f32 products with a 10-bit mantissa")
    p.add_argument("--layout", choices=["nchw", "nhwc"], default="nhwc")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--seconds", type=float, default=10.0, help="of steps, for a block")
    p.add_argument("--min-steps", type=int, default=5)
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--graph", action="store_true", help="the whole step as one CUDA graph")
    p.add_argument("--fused", action="store_true", help="the fused optimizer (PyTorch 2)")
    p.add_argument("--resident", action="store_true")
    return p.parse_args()


a = arguments()
on_gpu = a.device == "cuda"
if a.graph and not on_gpu:
    sys.exit("torch_step.py: --graph needs --device cuda")
os.environ["OMP_NUM_THREADS"] = str(a.threads)
import torch  # noqa: E402  (after the thread count is set)
from torch import nn  # noqa: E402

if on_gpu and not torch.cuda.is_available():
    sys.exit("torch_step.py: --device cuda, but torch finds no GPU")
torch.set_num_threads(a.threads)
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = a.tf32


class LeNet(nn.Sequential):
    """conv 6@5x5 pad 2, pool, conv 16@5x5, pool, 120, 84, 10: 61,706 parameters."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def model_and_batch():
    if a.model == "lenet":
        return LeNet(), (1, 28, 28), 10
    import torchvision  # its ResNets are v1.5: the stride is on the 3x3 convolution
    if a.model == "resnet18_cifar":
        m = torchvision.models.resnet18(num_classes=10)
        m.conv1, m.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
        return m, (3, 32, 32), 10
    return getattr(torchvision.models, a.model)(num_classes=10), (3, a.image, a.image), 10


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
run = torch.compile(model, mode="max-autotune") if a.compile else model


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


def captured():
    """Returns the step as a replay of one CUDA graph. Each replay trains on and returns the same
    loss tensor."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # creates workspaces, algorithms and momentum before capture
        for _ in range(max(3, a.warmup)):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss

    return replay


def synchronize():
    if on_gpu:
        torch.cuda.synchronize()


def warm_up(train):
    """Warms up; returns the seconds of a step after compilation and algorithm search."""
    for _ in range(a.warmup):
        train()
    synchronize()
    begin = time.perf_counter()
    for _ in range(3):
        train()
    synchronize()
    return (time.perf_counter() - begin) / 3


def time_on_gpu(train, steps):
    """Returns ms of each step from device events, no CPU times, and the last loss."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    events[0].record()
    for event in events[1:]:
        loss = train()
        event.record()
    synchronize()
    return [begin.elapsed_time(end) for begin, end in zip(events, events[1:])], [], loss


def time_on_cpu(train, steps):
    times, cpu_times, start = [], [], time.perf_counter()
    while len(times) < steps or time.perf_counter() - start < a.seconds:
        t, cpu = time.perf_counter(), time.process_time()
        loss = train()
        times.append(1e3 * (time.perf_counter() - t))
        cpu_times.append(1e3 * (time.process_time() - cpu))
    return times, cpu_times, loss


def peak_bytes():
    if on_gpu:
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def block(train, steps):
    synchronize()
    begin = time.perf_counter()
    times, cpu_times, loss = (time_on_gpu if on_gpu else time_on_cpu)(train, steps)
    wall = 1e3 * (time.perf_counter() - begin) / len(times)
    q = statistics.quantiles(times, n=4)
    result = {"steps": len(times), "ms_median": q[1], "ms_q1": q[0], "ms_q3": q[2], "ms_wall": wall,
              "ips": 1e3 * a.batch / q[1], "loss": loss.item(), "peak_bytes": peak_bytes()}
    if cpu_times:
        result |= {"ms_cpu_min": min(cpu_times), "ms_cpu_median": statistics.median(cpu_times)}
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value
            for key, value in result.items()}


def facts(warmup_s):
    chosen = {key: getattr(a, key) for key in ("model", "batch", "precision", "tf32", "layout",
                                               "device", "compile", "graph", "fused")}
    versions = {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return {"peer": "torch " + torch.__version__, **chosen, "threads": torch.get_num_threads(),
            "warmup_s": round(warmup_s, 2), **(versions if on_gpu else {})}


def main():
    begin = time.perf_counter()
    train = captured() if a.graph else step
    step_s = warm_up(train)
    about = facts(time.perf_counter() - begin)
    steps = max(a.min_steps, math.ceil(a.seconds / step_s) if on_gpu else 0)
    if not a.resident:
        print(json.dumps(about | block(train, steps)))
        return
    print(json.dumps(about), flush=True)
    while sys.stdin.readline():
        print(json.dumps(block(train, steps)), flush=True)


main()
