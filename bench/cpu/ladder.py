#!/usr/bin/env python3
"""Times our training step from plain to fast. Each rung of the ladder adds toggles to the one
before; an ablation then removes one rung at a time from the full set. All arms are interleaved.

    bench/cpu/ladder.py --model resnet18_cifar
    bench/cpu/ladder.py --model resnet50 --batch 8 --no-ablation

Both are needed: the ladder credits a late rung with gains that earlier ones made possible, and in
the ablation a toggle whose effect another one covers seems worthless. Each arm is one process.
"""
import argparse
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import arms  # noqa: E402
import measure  # noqa: E402
from run import MODELS  # noqa: E402

RUNGS = ["vendor_kernels", "caching_allocator, set_to_none", "huge_pages", "channels_last",
         "fused_bn_act, fused_bn_add_act", "fused_loss, fused_optimizer", "kernel_autotune=benchmark",
         "amp=bf16"]
# Toggles that run in a step but are not on the ladder, with the reason.
LEFT_OUT = {"thread_budget": "--threads says how many", "preallocate": "before the first step"}


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default=measure.ROOT / "build" / "bench" / "bench_step")
    p.add_argument("--model", choices=["resnet18_cifar", "resnet50"], default="resnet18_cifar")
    p.add_argument("--batch", type=int)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=2, help="of steps, for each turn")
    p.add_argument("--warmup", type=int, default=3, help="steps")
    p.add_argument("--no-ablation", action="store_true", help="leave out the second table")
    p.add_argument("--out")
    a = p.parse_args()
    a.batch = a.batch or MODELS[a.model][1][0]
    a.out = a.out or measure.ROOT / "docs" / "measurements" / f"{a.model}-cpu-ladder"
    return a


def toggles(rungs):
    return [toggle for rung in rungs for toggle in rung.split(", ")]


def names(rungs):
    return {toggle.split("=")[0] for toggle in toggles(rungs)}


def words(rungs):
    return ["toggles=none",
            *("toggles." + (t if "=" in t else f"{t}=on") for t in toggles(rungs))]


def rungs_here(a, step):
    """The RUNGS whose toggles run in a step under `toggles: all`. Exits if a toggle runs that is
    neither in RUNGS nor in LEFT_OUT."""
    said = measure.run([*step, "--warmup", 1, "--seconds", 0, "--min-steps", 1, "toggles=all"],
                       a.threads)
    if not said:
        raise SystemExit("no step, so there is nothing to climb")
    ran = set(said["ran"])
    if missing := ran - names(RUNGS) - set(LEFT_OUT):
        raise SystemExit(f"neither in RUNGS nor in LEFT_OUT: {', '.join(sorted(missing))}")
    for idle in names(RUNGS) - ran:
        measure.complain(f"left out: {idle} does nothing in this step")
    return [rung for rung in RUNGS if names([rung]) & ran]


def contestants(a, step, rungs):
    common = [*step, "--seconds", a.seconds, "--warmup", a.warmup, "--min-steps", 2, "--resident"]
    runs = {"plain": [*common, *words([])]}
    for i, rung in enumerate(rungs):
        runs[f"+ {rung}"] = [*common, *words(rungs[:i + 1])]
    for rung in rungs if not a.no_ablation else []:
        runs[f"- {rung}"] = [*common, *words([r for r in rungs if r != rung])]
    return runs


def row(results, name, *others):
    peak = max(result["peak_bytes"] for result in results[name]) / 2**20
    ratios = [measure.spread(*ratio, ".3g") if ratio else "" for ratio in others]
    return [name, measure.time_text(results[name]), *ratios, f"{peak:.0f}"]


def times(results, slow, fast):
    """Time of `slow` over the time of `fast`, per round; None for the same name."""
    return measure.ratio(results[fast], results[slow], "ms_median") if slow != fast else None


def ladder(results):
    names = [name for name in results if not name.startswith("- ")]
    rows = [row(results, name, times(results, names[max(i - 1, 0)], name),
                times(results, names[0], name)) for i, name in enumerate(names)]
    header = ["", "ms a step (q1 to q3)", "times as fast as the rung before",
              f"as {names[0]}", "peak MiB"]
    return "## Rung by rung\n\n" + measure.table(header, rows) + "\n"


def ablation(results):
    top = [name for name in results if not name.startswith("- ")][-1]
    names = [name for name in results if name.startswith("- ")]
    if not names:
        return ""
    rows = [row(results, name, times(results, name, top)) for name in [top, *names]]
    header = ["", "ms a step (q1 to q3)", "times as long as with all", "peak MiB"]
    return "## One left out\n\n" + measure.table(header, rows) + "\n"


INTRODUCTION = """# {model} on the CPU, from plain to fast

One step is zero_grad, forward, cross-entropy, backward and SGD with momentum and weight decay, on
one batch of {batch} in memory, threads: {threads}. {rounds} rounds of {seconds:g} s each, in turns,
every arm one process that is stopped while it waits; a time is the median over the rounds, a ratio
is taken within each round: median (smallest to largest).

"""


def main():
    a = arguments()
    step = [a.ours, *(word for word in MODELS[a.model][0] if word != "toggles=all"),
            "--batch", a.batch, "--threads", a.threads]
    rungs = rungs_here(a, step)
    facts = measure.machine()
    with arms.Arms(contestants(a, step, rungs), 600, OMP_NUM_THREADS=str(a.threads)) as running:
        results = measure.take_turns(list(running.alive), a.rounds, running.turn)
    facts |= {"load average after": measure.load_average(),
              "command": measure.command()}
    text = INTRODUCTION.format(**vars(a)) + ladder(results) + ablation(results)
    measure.write(a.out, text + measure.bullets(facts), {"machine": facts, "results": results})


if __name__ == "__main__":
    main()
