#!/usr/bin/env python3
"""Compares a training step of Bellows and PyTorch while other processes load the same cores.

    bench/cpu/busy.py --python PYTHON_WITH_TORCH
    bench/cpu/busy.py --python PYTHON --net resnet18 --threads 2 --rounds 3

Each round has a quiet half and a busy half, in which --busy processes spin. Every arm is one
process for all rounds. With B spinning processes on C cores, the fair share of a run is C / (B + 1)
cores, so a step's fair time is its CPU time on one quiet thread divided by that share. A step
passes if its median and its third quartile are at most 1.5 times the fair time.
"""
import argparse
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import arms  # noqa: E402
import measure  # noqa: E402

PEER = HERE.parent / "peers" / "torch_step.py"
GOAL = 1.5
SETTLE_S = 2.5  # adaptive_threads needs up to 2 s to notice that the load is over
# The peer's name of the model, our arguments, batch sizes, and values of adaptive_threads: "all"
# affects oneDNN's kernels, which LeNet does not use.
NETS = {"lenet": ("lenet", ["--model", "lenet"], [1, 64], ["off", "on"]),
        "resnet18": ("resnet18_cifar", ["--model", "resnet18", "--image", 32, "toggles=all",
                                         "toggles.amp=off"], [64], ["off", "all"])}


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default=measure.ROOT / "build" / "bench" / "bench_step")
    p.add_argument("--before", help="another bench_step, of an older build, as one more arm")
    p.add_argument("--python", action="append", default=[], help="with torch")
    p.add_argument("--net", choices=list(NETS), nargs="+", default=list(NETS))
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--busy", type=int, default=3, help="processes that spin")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=3, help="of steps, for each turn")
    p.add_argument("--timeout", type=float, default=900, help="s, for an arm to get warm")
    p.add_argument("--out", default=measure.ROOT / "docs" / "measurements" / "busy-cpu")
    return p.parse_args()


def contestants(a, pythons, net, batch, threads):
    peer, ours, _, values = NETS[net]
    size = ["--batch", batch, "--threads", threads, "--seconds", a.seconds, "--min-steps", 3,
            "--resident"]
    toggle = "toggles.adaptive_threads="
    runs = {f"bellows, adaptive_threads {value}": [a.ours, *ours, *size, toggle + value]
            for value in values}
    if a.before:
        runs["bellows before"] = [a.before, *ours, *size]
    for python, version in pythons.items():
        runs[f"torch {version}"] = [python, PEER, "--model", peer, *size, "--fused",
                                    "--layout", "nchw" if net == "lenet" else "nhwc",
                                    "--precision", "f32"]
    return runs


def take_turns(a, runs, threads):
    """Returns {"quiet" or "busy": {name: results}}, and the arms that failed with their reasons."""
    with arms.Arms(runs, a.timeout, OMP_NUM_THREADS=str(threads)) as running:
        results = {"quiet": {}, "busy": {}}
        for _ in range(a.rounds):
            time.sleep(SETTLE_S)
            for state, busy in (("quiet", 0), ("busy", a.busy)):
                with arms.Spinning(busy):
                    once = measure.take_turns(running.alive, 1, running.turn)
                for name, result in once.items():
                    results[state].setdefault(name, []).extend(result)
        complete = {state: {name: each for name, each in by_name.items() if name in running.alive}
                    for state, by_name in results.items()}
        return complete, running.missing


def fair_ms(a, quiet_on_one, cores):
    """Fair time of a step in ms, from its CPU time on one thread of a quiet machine."""
    return measure.middle(quiet_on_one, "ms_cpu_min") * (a.busy + 1) / cores


def rows(results, fair):
    for name, busy in results["busy"].items():
        quiet = results["quiet"][name]
        share = [measure.middle(busy, key) / fair[name] for key in ("ms_median", "ms_q3")]
        yield [name, measure.time_text(quiet), measure.time_text(busy), f"{fair[name]:.4g}",
               f"{share[0]:.2f}", f"{share[1]:.2f}", "yes" if max(share) <= GOAL else "no"]


HEADER = ["", "quiet, ms a step (q1 to q3)", "busy, ms a step (q1 to q3)", "fair time, ms",
          "median / fair", "q3 / fair", f"within {GOAL}"]
INTRODUCTION = """# A step beside other work on the CPU

f32; {busy} processes spin on {cores} cores in the busy halves. {rounds} rounds of {seconds:g} s for
each arm and half, in turns; a time is the median over the rounds. A step's fair time is its CPU
time on one quiet thread, times {busy} + 1 runs, over {cores} cores.

A kernel that switches between threads at its timer tick (every 4 ms at 250 Hz) lets a thread run
for one tick and wait for the next. On one thread beside one spinning process, a step of t ms of CPU
time has a fair time of 2 t, is disturbed in t of 4 cases, and takes t + 4 ms then. So for t between
1 and 2 ms, more than a fourth of the steps take longer than 1.5 times the fair time.

"""


def main():
    a = arguments()
    cores = len(os.sched_getaffinity(0))
    pythons = measure.with_torch(a.python)
    facts, every = measure.machine(), []
    text = INTRODUCTION.format(cores=cores, **vars(a))
    for net in a.net:
        for batch in NETS[net][2]:
            fair = {}
            for threads in sorted({1, *a.threads}):  # the fair time comes from one thread
                runs = contestants(a, pythons, net, batch, threads)
                results, missing = take_turns(a, runs, threads)
                if threads == 1:
                    fair = {name: fair_ms(a, quiet, cores)
                            for name, quiet in results["quiet"].items()}
                text += (f"## {net}, batch {batch}, threads: {threads}\n\n"
                         + measure.table(HEADER, list(rows(results, fair))) + "\n"
                         + "".join(f"Missing: {name}: {why}\n\n" for name, why in missing.items()))
                every.append({"net": net, "batch": batch, "threads": threads, "missing": missing,
                              "results": results, "fair_ms": fair})
    facts["load average after"] = measure.load_average()
    facts["command"] = measure.command()
    measure.write(a.out, text + measure.bullets(facts), {"machine": facts, "runs": every})


if __name__ == "__main__":
    main()
