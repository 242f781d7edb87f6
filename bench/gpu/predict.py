#!/usr/bin/env python3
"""Predicts steps on GPUs that this machine does not have, with `trainer plan --gpu`.

    ninja -C build trainer trainer_on_stand_in && bench/gpu/predict.py

The trainer on the stand-in device (tests/cuda_host) chooses kernels as on a GPU, so launches of the
small models, which they dominate, are counted; the ResNets would take minutes there. Writes
docs/measurements/gpu-prediction.md and .json; tools/gpu_check.sh prints them beside what it sees.
"""
import argparse
import json
import shlex
import subprocess
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402

IMAGES = ["--sample", "3x224x224", "--classes", "1000"]
SGD = "optimizer={name: sgd, lr: 0.01, momentum: 0.9, weight_decay: 1e-4}"


def resnet(name, amp):
    return ["--config", "configs/fast/resnet50_imagefolder.yaml", *IMAGES, f"model={name}", SGD,
            "loss={label_smoothing: 0}", "data.batch_size=256", f"toggles.amp={amp}",
            "toggles.tf32=off"]


# By the names of the steps of tools/gpu_check.sh.
STEPS = {
    "lenet": ["--config", "configs/fast/lenet.yaml", "--sample", "1x28x28", "--classes", "10",
              SGD, "toggles.amp=off", "toggles.tf32=off"],
    "resnet18_bf16": resnet("resnet18", "bf16"), "resnet18_f16": resnet("resnet18", "fp16"),
    "resnet50_bf16": resnet("resnet50", "bf16"), "resnet50_f16": resnet("resnet50", "fp16"),
    "airbench": ["--config", "configs/fast/airbench_cifar10.yaml", "--sample", "3x32x32",
                 "--classes", "10"],
}
COUNTED = {"lenet", "airbench"}
CARDS = ["h200", "h100"]

TEXT = """# Predicted steps on a GPU

No GPU has run this code. These steps are predictions, made before the first run to be compared with
it, all optimizations on, the whole step in one CUDA graph. Made by `bench/gpu/predict.py`.

The time of an op's pass is the larger of its bytes at {stream:.2f} TB/s (H200) and of its FLOP at
{products:.0f} % of the rate of a large product. Every launch adds {launch:g} us. Assumed:

- a device copy at 4.3 TB/s and a bf16 product of 8192^3 at 788 TFLOP/s on an H200 (measured), on an
  H100 3.0 TB/s and the same product; f32 without TF32 at 55 TFLOP/s
- our kernels stream at 85 % of a copy, convolutions and linear layers reach {products:.0f} % of a
  large product, a launch inside a graph costs {launch:g} us beside its work: none of these three
  was measured
- bytes and FLOP are those that the ops state (`ops/base/work.h`): each tensor once per pass, and
  nothing stays in L2. Both grow linearly from two samples to the batch
- the launches of LeNet and airbench are those that the stand-in device counts on four samples, where
  a vendor's call counts as one; a ResNet is taken to have one for each op and pass (~). Passes do
  not overlap
- Muon's products are not counted (below 1 % of airbench's FLOP)

"""


def predicted(trainer, card, words):
    argv = [trainer, "plan", "--gpu", card, "--json", *words]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=measure.ROOT)
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, argv))}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def limits(step):
    """Time of a step's passes, largest first: "conv2d 41 %"."""
    rows = [(op["op"], op["s"]) for op in step["ops"]] + [("launches", step["launching_s"])]
    rows.sort(key=lambda row: -row[1])
    return ", ".join(f"{name} {100 * s / step['step_s']:.0f} %" for name, s in rows[:4])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=measure.ROOT / "build", type=pathlib.Path)
    p.add_argument("--out", default=measure.ROOT / "docs/measurements/gpu-prediction")
    a = p.parse_args()
    stand_in = a.build / "tests/cuda_host/trainer_on_stand_in"
    steps = {}
    for name, words in STEPS.items():
        trainer = stand_in if name in COUNTED else a.build / "trainer"
        steps[name] = {card: predicted(trainer, card, words) for card in CARDS}
    some = next(iter(steps.values()))["h200"]
    text = TEXT.format(stream=some["stream_bytes_per_s"] * 1e-12, launch=some["launch_s"] * 1e6,
                       products=100 * some["product_share"])
    rows = [[name, card, str(s["batch"]), f"{s['flop'] * 1e-9:.4g}", f"{s['bytes'] * 1e-9:.4g}",
             f"{'' if s['launches_counted'] else '~'}{s['launches']}",
             f"{s['step_s'] * 1e3:.3f}", f"{s['ips']:.0f}", limits(s)]
            for name, cards in steps.items() for card, s in cards.items()]
    text += measure.table(["step", "card", "batch", "GFLOP", "GB", "launches", "ms", "images/s",
                           "where the time goes"], rows)
    measure.write(a.out, text, steps)


if __name__ == "__main__":
    main()
