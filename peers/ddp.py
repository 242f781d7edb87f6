#!/usr/bin/env python3
"""Compares what data-parallel training adds to a step, ours and PyTorch's, on two ranks of this
machine with one thread each, in turns. Ours runs twice: values travel through shared memory, as
by default, or through Gloo and TCP, as PyTorch's do.

    peers/ddp.py --peer torch_ddp.py --python PYTHON_WITH_TORCH
    peers/ddp.py --model resnet18_cifar --precision bf16 --peer FILE --python PYTHON

A turn measures the same step twice: both ranks alone at the same time, then together. The peer's
script does so itself: torchrun --nproc-per-node 2 FILE --model M --batch B --precision P --threads
1 --seconds S prints a JSON line with ms_alone and ms_ddp. Without --peer only ours runs.

Also measured, ours only: a world of one that a launcher started against no launcher.
"""
import json
import math
import pathlib
import socket
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import arms  # noqa: E402
import measure  # noqa: E402

MODELS = {"lenet": ["data.name=digits"],
          "resnet18_cifar": ["model=resnet18", "data.name=shapes", "toggles=all"]}
AMP = {"f32": "off", "bf16": "bf16"}


def arguments():
    p = measure.parser(__doc__, "trainer")
    p.add_argument("--peer", help="the script of PyTorch's side")
    p.add_argument("--python", default="python3", help="with torch, and torchrun beside it")
    p.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    p.add_argument("--precision", nargs="+", choices=list(AMP), default=list(AMP))
    p.add_argument("--batch", type=int, default=32, help="of each rank")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5, help="of steps, for each measurement")
    p.add_argument("--timeout", type=float, default=600, help="s, for a turn")
    p.add_argument("--out", default=measure.ROOT / "build" / "results" / "ddp-cpu")
    a = p.parse_args()
    if "bf16" in a.precision and not {"avx512_bf16", "amx_bf16"} & set(measure.first_flags()):
        measure.complain("skipped: bf16: this CPU has no bf16 arithmetic")
        a.precision = [p for p in a.precision if p != "bf16"]
    return a


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def measured(printed):
    return printed and json.loads(measure.last_line(printed))


def steps_of(a, model, precision):
    return [a.ours, "bench", "step", *MODELS[model], f"data.batch_size={a.batch}",
            f"data.train_size={2 * a.batch}", "threads.threads=1", f"toggles.amp={AMP[precision]}"]


def ours(a, model, precision, *words):
    """`words`: key=value of the run together."""
    command = steps_of(a, model, precision)
    alone = measured(arms.together([[*command, "--seconds", a.seconds]] * 2, a.timeout))
    if not alone:
        return None
    # Ranks need the same number of steps.
    steps = max(5, math.ceil(a.seconds * 1e3 / alone["ms_median"]))
    port = free_port()
    ddp = measured(arms.together([[*command, "--seconds", 0, "--steps", steps, *words]] * 2,
                                 a.timeout, [arms.rank_variables(r, 2, port) for r in range(2)]))
    if not ddp:
        return None
    kept = {name: ddp["per_step"].get(name, 0) for name in
            ("dist.buckets", "dist.early_buckets", "dist.grad_copy_bytes", "dist.exposed_wait_ns",
             "dist.shared_bytes")}
    return {"ms_alone": alone["ms_median"], "ms_ddp": ddp["ms_median"], "per_step": kept}


def ours_over_tcp(a, model, precision):
    return ours(a, model, precision, "dist.backend=gloo", "dist.shared_memory=false")


def peers(a, model, precision):
    command = [a.python, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port",
               free_port(), a.peer, "--model", model, "--batch", a.batch, "--precision", precision,
               "--threads", 1, "--seconds", a.seconds]
    return measured(arms.together([command], a.timeout))


def world_of_one(a):
    """Steps of one process, with and without the variables of a launcher, in turns."""
    command = steps_of(a, a.model[0], "f32") + ["--seconds", a.seconds, "--resident"]
    alone = arms.rank_variables(0, 1, free_port())
    launched = ["env", *(f"{name}={value}" for name, value in alone.items()), *command]
    with arms.Arms({"no launcher": command, "world of one": launched}, a.timeout,
                   **arms.ONE_THREAD) as running:
        return running.take_turns(max(a.rounds, 5))


def row(name, results):
    ratios = [r["ms_ddp"] / r["ms_alone"] for r in results]
    return [name, *(f"{measure.middle(results, key):.4g}" for key in ("ms_alone", "ms_ddp")),
            measure.spread(statistics.median(ratios), min(ratios), max(ratios), ".3f")]


INTRODUCTION = """# Data-parallel steps on the CPU, beside PyTorch

Two ranks on this machine with one thread each, {batch} samples per rank. `alone`: both ranks at the
same time, without communication. `together`: with DistributedDataParallel over Gloo, or ours through
shared memory or over Gloo (TCP).
{rounds} rounds of {seconds:g} s each, in turns; a time is the median over the rounds, a ratio is
taken within each round: median (smallest to largest).

"""


def main():
    a = arguments()
    sides = {"bellows": ours, "bellows over TCP": ours_over_tcp}
    facts, text, every = measure.machine(), INTRODUCTION.format(**vars(a)), []
    if a.peer and (version := measure.torch_version(a.python)):
        sides[f"torch {version}"] = peers
    else:
        measure.complain("no peer: name its script with --peer; ours runs alone")
    for model in a.model:
        for precision in a.precision:
            results = measure.take_turns(sides, a.rounds,
                                         lambda name: sides[name](a, model, precision))
            rows = [row(name, each) for name, each in results.items()]
            text += (f"## {model}, {precision}\n\n"
                     + measure.table(["", "ms alone", "ms together", "ratio"], rows) + "\n")
            every.append({"model": model, "precision": precision, "results": results})
    one = world_of_one(a)
    if len(one) == 2:
        ratio = measure.ratio_text(one["no launcher"], one["world of one"], "ms_median", ".3f")
        text += (f"## A world of one\n\nA step of {a.model[0]} with a launcher takes {ratio} times "
                 "as long as without.\n\n")
    measure.publish(a.out, text, facts, {"runs": every, "world of one": one})


if __name__ == "__main__":
    main()
