#!/usr/bin/env python3
"""Checks that PyTorch computes the same with the weights that `trainer export` writes.

    check_export.py [TRAINER]        default: build/trainer

Trains LeNet, ResNet-18 and a residual list of layers for a few steps, exports each and loads it
strictly into the same model in PyTorch. Images are prepared from the export's metadata: input_size,
mean and std. The logits must agree with those of `predict --logits`.
Needs torch, torchvision and numpy.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

from oracle import LeNet, read_safetensors, resnet18

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/trainer").resolve()
TOLERANCE = 1e-5  # largest difference, relative to the largest logit


class Residual(nn.Sequential):
    """The layer `residual`: numbered children, and `shortcut` if it has one."""

    def __init__(self, layers, shortcut=()):
        super().__init__(*layers)
        self.body = len(layers)
        if shortcut:
            self.add_module("shortcut", nn.Sequential(*shortcut))

    def forward(self, x):
        y = x
        for layer in list(self)[:self.body]:
            y = layer(y)
        return torch.relu(y + (self.shortcut(x) if hasattr(self, "shortcut") else x))


def residual_bias():
    def conv_bn(channels, out, **options):
        return [nn.Conv2d(channels, out, **options), nn.BatchNorm2d(out)]

    three = {"kernel_size": 3, "padding": 1}
    return nn.Sequential(
        *conv_bn(3, 8, **three), nn.ReLU(),
        Residual([*conv_bn(8, 8, **three), nn.ReLU(), *conv_bn(8, 8, **three)]),
        Residual([*conv_bn(8, 16, stride=2, **three), nn.ReLU(), *conv_bn(16, 16, **three)],
                 conv_bn(8, 16, kernel_size=1, stride=2)),
        nn.Conv2d(16, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


SMALL = ["train_size: 64", "test_size: 16", "batch_size: 16"]
MODELS = {
    "lenet": (LeNet, "configs/lenet.yaml", ["data={name: digits, " + ", ".join(SMALL) + "}"]),
    "resnet18": (lambda: resnet18()[0], "configs/resnet18.yaml",
                 ["model.width=64", "data={name: shapes, " + ", ".join(SMALL) + "}"]),
    "residual_bias": (residual_bias, "tests/oracle/residual_bias.yaml", []),
}


def trainer(folder, *arguments):
    done = subprocess.run([TRAINER, *map(str, arguments)], cwd=folder, text=True,
                          capture_output=True)
    if done.returncode:
        sys.exit(f"trainer {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}")
    return done.stdout


def metadata_of(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        metadata = json.loads(file.read(size))["__metadata__"]
    return {key: json.loads(metadata[key]) for key in ("input_size", "channels", "mean", "std",
                                                       "classes", "transforms")}


def write_images(folder, size):
    """Writes PGM or PPM files of shape `size` (C, H, W); returns them as uint8 of (N, C, H, W)."""
    channels, height, width = size
    images = np.random.default_rng(1).integers(0, 256, (8, *size), np.uint8)
    folder.mkdir()
    for i, image in enumerate(images):
        head = f"P{5 if channels == 1 else 6} {width} {height} 255\n".encode()
        (folder / f"{i}.ppm").write_bytes(head + image.transpose(1, 2, 0).tobytes())
    return images


def check(name, folder):
    make, config, extra = MODELS[name]
    trainer(folder, "--config", ROOT / config, "--run-dir", name, "train.epochs=2",
            "schedule=constant", *extra)
    file = folder / f"{name}.safetensors"
    trainer(folder, "export", name, file)

    model = make()
    saved = {key: torch.tensor(array) for key, array in read_safetensors(file).items()}
    model.load_state_dict(saved, strict=True)
    model.eval()
    zeros = [key for key, t in saved.items() if key.endswith("bias") and not t.any()]

    card = metadata_of(file)
    assert len(card["classes"]) == 10 and card["channels"] == card["input_size"][0], card
    images = write_images(folder / f"images_{name}", card["input_size"])
    mean, std = (torch.tensor(card[key]).view(1, -1, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        expected = model((torch.tensor(images) / 255 - mean) / std).numpy()
    lines = trainer(folder, "predict", name, f"images_{name}", "--logits", "--json").splitlines()
    got = np.array([json.loads(line)["logits"] for line in lines])
    difference = np.abs(got - expected).max() / np.abs(expected).max()
    agree = (got.argmax(1) == expected.argmax(1)).all()
    print(f"{name}: {len(saved)} tensors load strictly, {len(zeros)} biases are zeros; logits of "
          f"{len(got)} images differ by {difference:.1e} of the largest")
    return difference <= TOLERANCE and agree


with tempfile.TemporaryDirectory() as folder:
    results = [check(name, pathlib.Path(folder)) for name in MODELS]
sys.exit(0 if all(results) else 1)
