#!/usr/bin/env python3
"""Compares our losses with PyTorch's: ResNet-18 over one epoch of CIFAR-10, from the same initial
weights, with the same batches in the same order.

    peers/losses.py --data datasets/cifar10 --python PYTHON_WITH_TORCH

Rounding alone makes two runs diverge after some ten updates. So PyTorch also runs in its other
memory layout and in bf16; the allowed band contains those runs too.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import measure  # noqa: E402

PEER = HERE / "torch" / "torch_epoch.py"
MEAN, STD = [0.4914, 0.4822, 0.4465], [0.247, 0.2435, 0.2616]
RATE, WINDOW, BAND = 0.02, 20, 0.05  # WINDOW: updates over which losses are averaged


def arguments():
    p = measure.parser(__doc__, "trainer")
    p.add_argument("--python", required=True, help="with torch and torchvision")
    p.add_argument("--data", required=True, help="folder of CIFAR-10's binary files")
    p.add_argument("--updates", type=int, default=391, help="of 128 pictures; 391 are an epoch")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--out", default=measure.ROOT / "build" / "results" / "resnet18_cifar-losses")
    return p.parse_args()


def call(argv, threads):
    measure.complain(" ".join(map(str, argv)))
    subprocess.run(list(map(str, argv)), check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, OMP_NUM_THREADS=str(threads)))


def peer(a, folder, layout, precision):
    out = folder / "peer.json"
    call([a.python, PEER, "--data", a.data, "--weights", folder / "start.safetensors", "--out", out,
          "--mean", *MEAN, "--std", *STD, "--lr", RATE, "--updates", a.updates, "--layout", layout,
          "--precision", precision, "--threads", a.threads], a.threads)
    return json.loads(out.read_text())["losses"]


def ours(a, folder, words):
    runs = folder / "ours"
    call([a.ours, "--config", measure.ROOT / "configs" / "resnet18_cifar10.yaml", "--run-dir", runs,
          "--overwrite", f"data.root={a.data}", "data.shuffle=false",
          f"data.transforms=[{{name: normalize, mean: {MEAN}, std: {STD}}}]",
          f"optimizer={{name: sgd, lr: {RATE}, momentum: 0.9, weight_decay: 5e-4, "
          "nesterov: false}", "schedule={name: constant, warmup_epochs: 0}",
          f"train.weights={folder / 'start.safetensors'}", "train.epochs=1",
          f"train.max_iters={a.updates}", "log.every=1", "eval.every=0", "ckpt.every=0", *words],
         a.threads)
    lines = map(json.loads, (runs / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["split"] == "train"]


def smooth(losses):
    return [statistics.fmean(losses[max(0, i + 1 - WINDOW):i + 1]) for i in range(len(losses))]


def apart(losses, reference):
    """Relative distance of the smoothed losses from the smoothed reference, at each update."""
    return [abs(x / y - 1) for x, y in zip(smooth(losses), smooth(reference))]


def report(results, reference):
    updates = [u for u in (1, 2, 5, 10, 20, 50, 100, 200, 300, 391) if u <= len(results[reference])]
    raw = [[name, *(f"{losses[u - 1]:.5f}" for u in updates)] for name, losses in results.items()]
    rows, outside = [], []
    for name, losses in results.items():
        if name == reference:
            continue
        parts = apart(losses, results[reference])
        outside += [name] if max(parts) > BAND else []
        whole = statistics.fmean(losses) / statistics.fmean(results[reference]) - 1
        rows.append([name, *(f"{100 * parts[u - 1]:.2f} %" for u in updates),
                     f"{100 * max(parts):.2f} %", f"{100 * whole:+.2f} %"])
    return ("## Loss of a batch\n\n" + measure.table(["update", *updates], raw) + "\n"
            f"## Distance from {reference}, of the mean over {WINDOW} updates\n\n"
            + measure.table(["update", *updates, "largest", "mean of all"], rows) + "\n"
            f"Outside of the band of {100 * BAND:g} %: {', '.join(outside) or 'none'}.\n\n")


INTRODUCTION = """# ResNet-18 on CIFAR-10: our losses and PyTorch's

The same start (PyTorch's initialization, handed over as safetensors), the same batches of 128 in the
files' order, normalized and nothing else; SGD with momentum 0.9, weight decay 5e-4 and a constant
rate of {rate}; {updates} updates, threads: {threads}. Ours run with all toggles that make them
faster. Rounding alone makes two runs part, so PyTorch also runs in its other memory layout and in
bf16: the band of {band:g} % holds those too.

"""


def main():
    a = arguments()
    facts = measure.machine()
    reference = f"torch {measure.torch_version(a.python)} f32 nhwc"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        results = {reference: peer(a, folder, "nhwc", "f32"),
                   "the same, nchw": peer(a, folder, "nchw", "f32"),
                   "the same, bf16": peer(a, folder, "nhwc", "bf16"),
                   "bellows f32": ours(a, folder, ["toggles=all", "toggles.amp=off"]),
                   "bellows bf16": ours(a, folder, ["toggles=all", "toggles.amp=bf16"])}
    text = INTRODUCTION.format(rate=RATE, band=100 * BAND, updates=a.updates, threads=a.threads)
    measure.publish(a.out, text + report(results, reference), facts, {"losses": results})


if __name__ == "__main__":
    main()
