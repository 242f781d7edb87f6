#!/usr/bin/env python3
"""Throughput of PyTorch's DataLoader.

    torch_loader.py --idx ../data/mnist --workers 2 --batch 64
    torch_loader.py --images photos/train --decoder pillow --workers 2 --batch 64

MNIST is held in memory; torchvision normalizes each sample (ToTensor, Normalize). Images of an
ImageFolder get a random 224 x 224 crop, a random flip and normalization: decoded and resized by
Pillow, or as tensors by torchvision. Prints one JSON line: median samples per second of an epoch,
with and without the wait for the first batch, and per second of CPU time including workers. The
first --warmup epochs do not count.
"""
import argparse
import gzip
import json
import multiprocessing
import os
import pathlib
import statistics
import struct
import time

import numpy
import torch
from torchvision import datasets, io, transforms
from torchvision.transforms import v2

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def idx(folder, stem):
    for path in pathlib.Path(folder).rglob(stem + "*"):
        raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        rank = raw[3]
        shape = struct.unpack(">" + "I" * rank, raw[4:4 + 4 * rank])
        return numpy.frombuffer(raw, numpy.uint8, offset=4 + 4 * rank).reshape(shape)
    raise SystemExit(f"{folder}: no file {stem}*")


class Mnist(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.images, self.labels = idx(folder, "train-images"), idx(folder, "train-labels")
        self.transform = transforms.Compose([transforms.ToTensor(),
                                             transforms.Normalize(0.1307, 0.3081)])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(self.images[i][..., None]), int(self.labels[i])


def by_pillow(folder):
    return datasets.ImageFolder(folder, transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(), transforms.Normalize(*IMAGENET)]))


def by_torchvision(folder):
    transform = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
                            v2.ToDtype(torch.float32, scale=True), v2.Normalize(*IMAGENET)])
    return datasets.ImageFolder(
        folder, transform, loader=lambda path: io.decode_image(path, io.ImageReadMode.RGB))


def cpu_seconds():
    """CPU time of this process and its workers."""
    ticks = 0
    for worker in multiprocessing.active_children():
        fields = pathlib.Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


DECODERS = {"pillow": by_pillow, "torchvision": by_torchvision}
p = argparse.ArgumentParser()
p.add_argument("--idx", help="MNIST's folder")
p.add_argument("--images", help="an ImageFolder, instead of MNIST")
p.add_argument("--decoder", choices=list(DECODERS), default="pillow")
p.add_argument("--workers", type=int, default=2)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--epochs", type=int, default=3)
p.add_argument("--warmup", type=int, default=0, help="epochs")
a = p.parse_args()
torch.set_num_threads(min(2, len(os.sched_getaffinity(0))) if a.workers == 0 else 1)
dataset = DECODERS[a.decoder](a.images) if a.images else Mnist(a.idx)
loader = torch.utils.data.DataLoader(dataset, batch_size=a.batch, shuffle=True,
                                     num_workers=a.workers, persistent_workers=a.workers > 0)
whole, steady, cpu = [], [], []
for _ in range(a.warmup + a.epochs):
    begin, begin_cpu, first, n = time.perf_counter(), cpu_seconds(), None, 0
    for x, y in loader:
        n += len(y)
        if first is None:
            first, after = time.perf_counter(), n
    end = time.perf_counter()
    whole.append(n / (end - begin))
    steady.append((n - after) / (end - first))
    cpu.append(n / (cpu_seconds() - begin_cpu))
print(json.dumps({
    "peer": "torch " + torch.__version__, "workers": a.workers, "batch": a.batch,
    "samples_per_s": round(statistics.median(whole[a.warmup:])),
    "samples_per_s_after_first_batch": round(statistics.median(steady[a.warmup:])),
    "samples_per_cpu_s": round(statistics.median(cpu[a.warmup:]))}))
