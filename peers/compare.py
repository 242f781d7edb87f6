#!/usr/bin/env python3
"""Compares Bellows with PyTorch on the same work, interleaved in one run.

    peers/compare.py lenet --python PYTHON_WITH_TORCH [--python ANOTHER]
    peers/compare.py resnet50 --precision bf16 --threads 2 --python PYTHON
    peers/compare.py resnet50 --device cuda --precision bf16 --with "" --with toggles=all
    peers/compare.py mnist_loader --data FOLDER_OF_MNIST --python PYTHON
    peers/compare.py jpeg_loader --data FOLDER_OF_CLASSES --python PYTHON

A model names a training step: zero_grad, forward, cross-entropy, backward and SGD with momentum and
weight decay, on one batch in memory. On a CPU PyTorch runs in both memory layouts, each eager, with
the fused optimizer, and compiled (mode="max-autotune"), once per interpreter given; on a GPU in
NHWC, fused, compiled, and with the whole step as one CUDA graph. Ours runs once per --with, with
its key=value words. Every arm of a step is one process for all rounds, stopped while it waits. The
first arm of ours is compared with each other arm, within each round. A report lists arms that
failed; on a GPU the exit code is then 1.
"""
import os
import pathlib
import shlex
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import arms  # noqa: E402
import gpu_state  # noqa: E402
import measure  # noqa: E402

PEERS = measure.ROOT / "peers" / "torch"
DIGITS = "{{name: digits, train_size: {batch}, batch_size: {batch}}}"
SHAPES = ("{{name: shapes, train_size: {batch}, batch_size: {batch}, "
          "transforms: [{{name: resize, size: {image}}}, normalize]}}")
# {the peer's name of a model: (our words, our data, side of its images, batch sizes)}
MODELS = {"lenet": ([], DIGITS, 28, [1, 64]),
          "resnet18_cifar": (["model=resnet18"], SHAPES, 32, [64]),
          "resnet18": (["model=resnet18"], SHAPES, 224, [256]),
          "resnet50": (["model=resnet50"], SHAPES, 224, [16])}
AMP = {"f32": "off", "bf16": "bf16", "f16": "fp16"}
WAYS = {"eager": [], "fused": ["--fused"], "compile": ["--fused", "--compile"],
        "graph": ["--fused", "--graph"]}


def arguments():
    p = measure.parser(__doc__, "trainer")
    p.add_argument("subject", choices=[*MODELS, *LOADERS])
    p.add_argument("--python", action="append", default=[], help="with torch; may be repeated")
    p.add_argument("--with", dest="variants", action="append", metavar="WORDS",
                   help="key=value words for an arm of ours; may be repeated; else toggles=all")
    p.add_argument("--precision", choices=list(AMP), default="f32")
    p.add_argument("--tf32", action="store_true")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cpu")
    p.add_argument("--batch", type=int, nargs="+")
    p.add_argument("--image", type=int, help="side of a ResNet's images")
    p.add_argument("--threads", type=int, nargs="+", help="of the host; 1 and 2, on a GPU 1")
    p.add_argument("--ways", nargs="*", choices=list(WAYS), help="of the peer")
    p.add_argument("--data", help="folder of a loader's files")
    p.add_argument("--photos", type=int, default=1024, help="about so many of them")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=3, help="of steps, for each turn")
    p.add_argument("--warmup", type=int, default=5, help="steps")
    p.add_argument("--timeout", type=float, default=900, help="s, for an arm to get warm")
    p.add_argument("--out", help="stem of a .md and a .json")
    a = p.parse_args()
    name = f"{a.subject}-{a.device}" + f"-{a.precision}" * (a.precision != "f32")
    a.out = a.out or measure.ROOT / "build" / "results" / name
    a.threads = a.threads or ([1] if a.device == "cuda" else [1, 2])
    if max(a.threads) > len(os.sched_getaffinity(0)):
        raise SystemExit(f"--threads {max(a.threads)}: this machine has fewer cores")
    return a


# ---- contests: a title and the command of each arm; arms of ours begin with "bellows".
# keep(title, results, missing) writes what there is after each turn of an arm, so that a comparison
# that is killed leaves its report.

def step_contests(a, pythons, keep):
    words, data, image, batches = MODELS[a.subject]
    image, on_gpu = a.image or image, a.device == "cuda"
    for batch in a.batch or batches:
        for threads in a.threads:
            turn = ["--seconds", a.seconds, "--warmup", a.warmup, "--resident"]
            ours = [a.ours, "bench", "step", *turn, *words, f"device={a.device}",
                    f"threads.threads={threads}", "data=" + data.format(batch=batch, image=image),
                    "optimizer={name: sgd, lr: 0.01, momentum: 0.9, weight_decay: 1e-4}",
                    f"toggles.amp={AMP[a.precision]}", f"toggles.tf32={'on' if a.tf32 else 'off'}"]
            runs = {f"bellows {variant}".strip(): [*ours, *shlex.split(variant)]
                    for variant in a.variants or ["toggles=all"]}
            for python, version in pythons.items():
                for layout in ["nhwc"] if on_gpu else ["nchw", "nhwc"]:
                    for way in list(WAYS)[on_gpu:4 if on_gpu else 3] if a.ways is None else a.ways:
                        runs[f"torch {version} {layout} {way}"] = [
                            python, PEERS / "torch_step.py", "--model", a.subject, "--batch", batch,
                            "--image", image, "--device", a.device, "--threads", threads, *turn,
                            "--layout", layout, "--precision", a.precision, *WAYS[way],
                            *["--tf32"] * a.tf32]
            title = f"{a.subject} step, batch {batch}, {a.precision}, threads: {threads}"
            state = {"gpu": gpu_state.state} if on_gpu else {}
            with arms.Arms(runs, a.timeout, lambda missing: keep(title, {}, missing),
                           OMP_NUM_THREADS=str(threads)) as running:
                running.take_turns(a.rounds, lambda: {k: f() for k, f in state.items()},
                                   lambda results: keep(title, results, running.missing))


def time_loaders(a, title, runs, keep):
    measure.take_turns(runs, a.rounds, lambda name: measure.run(runs[name], 1),
                       lambda results: keep(title, results, {}))


def our_loader(a, data, workers, **toggles):
    toggles = {"num_workers": workers, "persistent_workers": "on" if workers else "off",
               "prefetch_factor": 2 if workers else 0} | toggles
    return [a.ours, "bench", "loader", "--epochs", 3, f"data={{{data}, batch_size: 64}}",
            *(f"toggles.{name}={value}" for name, value in toggles.items())]


def mnist_contests(a, pythons, keep):
    """MNIST in memory, shuffled and normalized, in batches of 64."""
    runs = {}
    for workers in (0, 1, 2):
        for rings in ["off", "on"][:1 + (workers > 0)]:
            runs[f"bellows, {workers} workers, rings {rings}"] = our_loader(
                a, f"name: mnist, root: {a.data}", workers, ring_queues=rings)
        for python, version in pythons.items():
            runs[f"torch {version}, {workers} workers"] = [
                python, PEERS / "torch_loader.py", "--idx", a.data, "--workers", workers]
    time_loaders(a, "MNIST in memory, batch 64", runs, keep)


def jpeg_contests(a, pythons, keep):
    """Resizes random parts of photos to 224 x 224, flips at random, normalizes, batches of 64.
    The files are in the page cache. Each arm is pinned to its cores, with a worker for each."""
    parts = "transforms: [random_resized_crop, random_flip, normalize]"
    for photos, options in {"as they are": [], "512 pixels": ["--side", 512]}.items():
        with tempfile.TemporaryDirectory() as root:
            python = next(iter(pythons), sys.executable)
            made = measure.run([python, PEERS / "write_photos.py", a.data, f"{root}/train",
                                "--photos", a.photos, *options], 1)
            made or sys.exit("no photos, so there is nothing to measure")
            for cores in a.threads:
                pinned = ["taskset", "-c", f"0-{cores - 1}"]
                runs = {f"bellows, {name}": [*pinned, *our_loader(
                            a, f"name: image_folder, root: {root}, {parts}",
                            cores if cores > 1 else 0, scaled_decode=scaled)]
                        for name, scaled in (("scaled_decode", "on"), ("whole images", "off"))}
                for decoder in ("pillow", "torchvision") if pythons else ():
                    for workers in [0, 1] if cores == 1 else [cores]:
                        runs[f"torch, {decoder}, {workers} workers"] = [
                            *pinned, python, PEERS / "torch_loader.py", "--images", f"{root}/train",
                            "--decoder", decoder, "--workers", workers, "--warmup", 1]
                time_loaders(a, f"JPEG photos {photos} ({made['photos']} of {made['mean_bytes']} "
                             f"bytes), cores: {cores}", runs, keep)


LOADERS = {"mnist_loader": mnist_contests, "jpeg_loader": jpeg_contests}


# ---- the report

def is_rate(results):
    return "samples_per_s" in results[0]


def faster_by_cpu_time(ours, other):
    key = "samples_per_cpu_s" if is_rate(ours) else "ms_cpu_min"
    if not all(key in results[0] for results in (ours, other)):
        return ""
    return measure.ratio_text(*((other, ours) if is_rate(ours) else (ours, other)), key)


def row(name, results, ours):
    if is_rate(results):
        speed = [measure.rate_text(results, key) for key in ("samples_per_s", "samples_per_cpu_s")]
    else:
        cpu = f"{measure.middle(results, 'ms_cpu_min'):.4g}" if "ms_cpu_min" in results[0] else ""
        speed = [measure.time_text(results), cpu]
    against = ["", ""] if results is ours or not ours else [
        measure.spread(*measure.speed_ratio(ours, results)), faster_by_cpu_time(ours, results)]
    peak = max(result.get("peak_bytes", 0) for result in results) / 2**20
    return [name, len(results), *speed, *against, f"{peak:.0f}", gpu_state.clocks(results)]


def fallbacks(results):
    """What each arm of ours ran on the plain kernel instead of a library's: {name: text}."""
    counted = {name: each[-1].get("per_step", {}).get("kernel.fallbacks", 0)
               for name, each in results.items() if each}
    return {name: f"{count:g} products of a step ran on the plain kernel"
            for name, count in counted.items() if count}


def section(title, results, missing):
    done = {name: each for name, each in results.items() if each}
    first = next((name for name in done if name.startswith("bellows")), None)
    text = f"## {title}\n\n"
    if done:
        any_ = done[first or next(iter(done))]
        units = (["samples/s", "per CPU second"] if is_rate(any_) else
                 ["ms a step (q1 to q3)", "CPU ms"])
        header = ["", "turns", *units, f"times as fast is {first or 'ours, which is missing'}",
                  "by CPU time", "peak MiB", "SM MHz, lowest"]
        rows = [row(name, each, done.get(first)) for name, each in done.items()]
        text += measure.table(header, rows) + "\n"
    for name, why in missing.items():
        reason, *tail = why.splitlines()
        text += f"**{'At fault' if name in done else 'Missing'}**: {name}: {reason}\n\n"
        text += "```\n" + "\n".join(tail) + "\n```\n\n" if tail else ""
    return text


def main():
    a = arguments()
    pythons = measure.with_torch(a.python) if a.ways != [] else {}
    facts, runs, on_gpu = measure.machine(), {}, a.device == "cuda"
    if on_gpu:
        facts["gpu"] = gpu_state.text(gpu_state.state())
    no_torch = {"torch": "no interpreter has it"} if on_gpu and a.ways != [] and not pythons else {}

    def keep(title, results, missing):
        runs[title] = {"title": title, "missing": missing | no_torch | fallbacks(results),
                       "results": results}
        return measure.write(a.out, f"# {a.subject} beside PyTorch\n\n" + "".join(
            section(**run) for run in runs.values()), facts, {"runs": list(runs.values())})

    contests = LOADERS.get(a.subject, step_contests)
    contests(a, pythons, keep)
    print("".join(section(**run) for run in runs.values()) + measure.bullets(facts))
    ours = all(any(name.startswith("bellows") and each for name, each in run["results"].items())
               for run in runs.values())
    if not ours or not runs:
        raise SystemExit("ours did not run to its end, so there is nothing to compare")
    return int(on_gpu and any(run["missing"] for run in runs.values()))


if __name__ == "__main__":
    sys.exit(main())
