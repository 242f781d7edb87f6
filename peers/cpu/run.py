#!/usr/bin/env python3
"""Compares a training step of Bellows and PyTorch on the CPU: same batch, precision and threads,
interleaved.

    peers/cpu/run.py --python PYTHON_WITH_TORCH [--python ANOTHER]
    peers/cpu/run.py --python PYTHON --model resnet50 --precision bf16 --threads 2

PyTorch runs in both memory layouts, each eager, with the fused optimizer, and compiled
(torch.compile(mode="max-autotune"), also fused), once per interpreter given. We compare with the
fastest. Every arm is one process for all rounds; the report lists arms that failed. Times are wall
times of whole steps. With one thread, CPU times are shown too, because other load distorts them
less.
"""
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import arms  # noqa: E402
import measure  # noqa: E402

PEER = HERE.parent / "torch" / "torch_step.py"
# {the peer's name of a model: (our arguments, batch sizes)}
MODELS = {"lenet": (["--model", "lenet"], [1, 64]),
          "resnet18_cifar": (["--model", "resnet18", "--image", 32, "toggles=all"], [64]),
          "resnet50": (["--model", "resnet50", "--image", 224, "toggles=all"], [16])}
AMP = {"f32": "off", "bf16": "bf16"}
WAYS = {"eager": [], "fused": ["--fused"], "compile": ["--fused", "--compile"]}


def arguments():
    p = measure.parser(__doc__, "peers/bench_step")
    p.add_argument("--python", action="append", default=[], help="with torch; may be repeated")
    p.add_argument("--model", choices=list(MODELS), default="lenet")
    p.add_argument("--precision", choices=list(AMP), default="f32")
    p.add_argument("--batch", type=int, nargs="+")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS),
                   help="of the peer; before version 2 it has but eager")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=3, help="of steps, for each turn")
    p.add_argument("--warmup", type=int, default=5, help="steps")
    p.add_argument("--timeout", type=float, default=900, help="s, for an arm to get warm")
    p.add_argument("--out")
    a = p.parse_args()
    a.batch = a.batch or MODELS[a.model][1]
    name = f"{a.model}-cpu" + f"-{a.precision}" * (a.precision != "f32")
    a.out = a.out or measure.ROOT / "build" / "results" / name
    return a


def contestants(a, pythons, batch, threads):
    size = ["--batch", batch, "--threads", threads, "--seconds", a.seconds, "--warmup", a.warmup,
            "--resident"]
    runs = {"bellows": [a.ours, *MODELS[a.model][0], *size, f"toggles.amp={AMP[a.precision]}"]}
    for python, version in pythons.items():
        ways = a.ways if int(version.partition(".")[0]) >= 2 else ["eager"]
        for layout in ("nchw", "nhwc"):
            for way in ways:
                runs[f"torch {version} {layout} {way}"] = [
                    python, PEER, "--model", a.model, *size, "--layout", layout, "--precision",
                    a.precision, *WAYS[way]]
    return runs


def onednn(a, pythons):
    """The oneDNN versions of all sides, as text."""
    def version(argv, pattern):
        found = re.search(pattern, measure.capture(argv).stdout)
        return found[1] if found else "none"
    trainer = pathlib.Path(a.ours).parents[1] / "trainer"
    versions = [f"bellows {version([trainer, 'doctor'], r'oneDNN ([^,]+)')}"]
    show = "import torch; print(torch.__config__.show())"
    versions += [f"torch {torch} {version([python, '-c', show], r'DNN v([^ ]+)')}"
                 for python, torch in pythons.items()]
    return ", ".join(versions)


def row(name, results, ours):
    one_thread = results[0]["threads"] == 1 and "ms_cpu_min" in results[0]
    cpu = f"{measure.middle(results, 'ms_cpu_min'):.4g}" if one_thread else ""
    both = one_thread and "ms_cpu_min" in ours[0]
    against = [measure.ratio_text(ours, results, key) for key in ("ms_median", "ms_q1")]
    against.append(measure.ratio_text(ours, results, "ms_cpu_min") if both else "")
    ips = f"{measure.middle(results, 'ips'):.0f}"
    time = measure.time_text(results)
    return [name, time, cpu, ips] + (against if results is not ours else [""] * 3)


def section(batch, threads, results, missing):
    """A table, fastest peer first, and a summary sentence."""
    ours = results["bellows"]
    peers = sorted((name for name in results if name != "bellows"),
                   key=lambda name: measure.middle(results[name], "ms_median"))
    header = ["", "ms a step (q1 to q3)", "CPU ms, minimum", "images/s", "times ours: median",
              "lower quartile", "CPU time"]
    rows = [row(name, results[name], ours) for name in ["bellows", *peers]]
    text = f"## Batch {batch}, threads: {threads}\n\n{measure.table(header, rows)}\n"
    if peers:
        times = measure.ratio_text(ours, results[peers[0]], "ms_median")
        text += f"The fastest peer, {peers[0]}, takes {times} times as long as Bellows.\n\n"
    return text + "".join(f"Missing: {name}: {why}\n\n" for name, why in missing.items())


INTRODUCTION = """# {model} on the CPU, beside PyTorch

One step is zero_grad, forward, cross-entropy, backward and SGD with momentum and weight decay, on
one batch in memory, {precision}. {rounds} rounds of {seconds:g} s each, in turns, every arm one
process that is stopped while it waits; a time is the median over the rounds, a ratio is taken
within each round: median (smallest to largest).

"""


def main():
    a = arguments()
    cores = len(os.sched_getaffinity(0))
    if max(a.threads) > cores:
        raise SystemExit(f"--threads {max(a.threads)}: this machine has {cores} cores")
    if not pathlib.Path(a.ours).exists():
        raise SystemExit(f"{a.ours} is missing; build it with  ninja -C build bench_step")
    pythons = measure.with_torch(a.python)
    facts, text, every = measure.machine(), INTRODUCTION.format(**vars(a)), []
    for batch in a.batch:
        for threads in a.threads:
            runs = contestants(a, pythons, batch, threads)
            with arms.Arms(runs, a.timeout, OMP_NUM_THREADS=str(threads)) as running:
                results, missing = running.take_turns(a.rounds), running.missing
            if "bellows" not in results:
                raise SystemExit("no result of ours, so there is nothing to compare")
            text += section(batch, threads, results, missing)
            every.append({"batch": batch, "threads": threads, "missing": missing,
                          "results": results})
    facts["oneDNN"] = onednn(a, pythons)
    measure.write(a.out, text, facts,
                  {"model": a.model, "precision": a.precision, "runs": every})


if __name__ == "__main__":
    main()
