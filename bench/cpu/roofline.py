#!/usr/bin/env python3
"""Roofline of our training step: time per kind of op, and its rate relative to the machine's peak.

    bench/cpu/roofline.py --model resnet50 --precision bf16

The peak for convolutions is the rate of multiply-adds in vector registers; for memory-bound ops it
is the rate of a triad that bypasses the caches. Both are measured in the same process. Work is
counted by the formula, so an algorithm with fewer products (Winograd) may exceed the peak, and so
may data that is still in a cache.
"""
import argparse
import collections
import math
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import measure  # noqa: E402
from run import AMP, MODELS  # noqa: E402


def flop(conv):
    """FLOP of one pass of a convolution of x (N, C, H, W) with w (K, C, KH, KW)."""
    weight = conv["inputs"][1]
    return 2 * math.prod(conv["output"]) * math.prod(weight) // weight[0]


# Memory passes over a norm's elements, by `backward`. Forward: statistics and normalization read x,
# y is written. Backward: dy and x are read twice, dx is written. A residual adds one to each.
PASSES = {False: 3, True: 5}


def kinds(ops, graph, size):
    """Returns {kind: (ms, work, key of the ceiling)} for the ops of a step."""
    shapes = {op["path"]: op for op in graph if op["name"].startswith(("conv2d", "batch_norm"))}
    weights = sum(math.prod(op["inputs"][1]) for op in graph if op["name"] == "conv2d")
    totals = collections.defaultdict(lambda: [0.0, 0.0, None])
    for op in ops:
        path, name, backward = op["path"], op["name"], op["backward"]
        way = "backward" if backward else "forward"
        if name == "conv2d":
            kind, ceiling = f"convolutions, {way}", "flops"
            passes = sum(map(bool, shapes[path]["inputs"][:2])) if backward else 1
            work = passes * flop(shapes[path])
        elif name.startswith(("batch_norm", "bn_")):
            kind, ceiling = f"batch norm, ReLU, add, {way}", "bytes_per_s"
            output, inputs = shapes[path]["output"], shapes[path]["inputs"]
            added = inputs.count(output) - 1  # 1 if there is a residual
            work = math.prod(output) * size * (PASSES[backward] + added)
        elif name == "optimizer":
            kind, ceiling = "optimizer", "bytes_per_s"
            work = 4 * 5 * weights
        elif name == "max_pool2d":
            kind, work, ceiling = f"max pooling, {way}", 0, None
        else:
            kind, work, ceiling = "all else", 0, None
        totals[kind][0] += op["ms"]
        totals[kind][1] += work
        totals[kind][2] = ceiling
    return totals


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default=measure.ROOT / "build" / "bench" / "bench_step")
    p.add_argument("--model", choices=["resnet18_cifar", "resnet50"], default="resnet18_cifar")
    p.add_argument("--precision", choices=list(AMP), nargs="+", default=list(AMP))
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--out")
    a = p.parse_args()
    a.out = a.out or measure.ROOT / "docs" / "measurements" / f"{a.model}-cpu-roofline"
    return a


def medians(runs):
    """The ops of a run, each with its median time over all runs."""
    times = collections.defaultdict(list)
    for run in runs:
        for op in run["ops"]:
            times[op["path"], op["name"], op["backward"]].append(op["ms"])
    return [{"path": path, "name": name, "backward": backward, "ms": statistics.median(ms)}
            for (path, name, backward), ms in times.items()]


def section(precision, runs, graph):
    size = 4 if precision == "f32" else 2
    ceilings = {"flops": max(run["ceilings"][precision] for run in runs),
                "bytes_per_s": max(run["ceilings"]["bytes_per_s"] for run in runs)}
    found = kinds(medians(runs), graph, size)
    whole = sum(ms for ms, _, _ in found.values())
    rows = []
    for kind, (ms, work, ceiling) in sorted(found.items(), key=lambda item: -item[1][0]):
        unit = {"flops": "GFLOP", "bytes_per_s": "GB", None: ""}[ceiling]
        rate = work / ms * 1e-6
        rows.append([kind, f"{ms:.1f}", f"{100 * ms / whole:.1f} %",
                     *([f"{work * 1e-9:.2f} {unit}", f"{rate:.0f} {unit}/s",
                        f"{100 * rate * 1e9 / ceilings[ceiling]:.0f} %"] if ceiling else [""] * 3)])
    header = ["", "ms", "of the step", "work", "rate", "of the ceiling"]
    return (f"## {precision}\n\nCeilings: {ceilings['flops'] * 1e-9:.0f} GFLOP/s, "
            f"{ceilings['bytes_per_s'] * 1e-9:.1f} GB/s. A step: {whole:.1f} ms.\n\n"
            + measure.table(header, rows) + "\n")


INTRODUCTION = """# {model} on the CPU: where a step goes

One step on a batch of {batch}, threads: {threads}, every toggle that makes it faster. Times are
those of an op without the ops inside it, each the median of 20 steps and then of {rounds} processes.
Convolutions count 2 N OH OW K C KH KW for each pass; norms 3 passes over their elements forward and
5 backward, one more each with a residual; the optimizer reads weights, gradients and momentum and
writes two of them.

"""


def main():
    a = arguments()
    options, batches = MODELS[a.model]
    facts, text, every = measure.machine(), "", {}
    for precision in a.precision:
        argv = [a.ours, *options, "--batch", batches[0], "--threads", a.threads, "--warmup", 5,
                "--seconds", 1, "--ops", f"toggles.amp={AMP[precision]}"]
        runs = [run for _ in range(a.rounds) if (run := measure.run(argv, a.threads))]
        if not runs:
            raise SystemExit("no result")
        graph = [run.pop("graph") for run in runs][0]  # equal in all runs, and long
        text += section(precision, runs, graph)
        every[precision] = runs
    facts |= {"load average after": measure.load_average(),
              "command": measure.command()}
    introduction = INTRODUCTION.format(**vars(a) | {"batch": batches[0]})
    measure.write(a.out, introduction + text + measure.bullets(facts),
                  {"machine": facts, "runs": every})


if __name__ == "__main__":
    main()
