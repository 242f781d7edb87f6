#!/usr/bin/env python3
"""The peer's input pipeline: PyTorch's DataLoader over MNIST held in memory.

    torch_loader.py --idx ../data/mnist --workers 2 --batch 64

Each sample is normalized by torchvision (ToTensor, Normalize), the ordinary way. Prints one JSON
line: samples per second of a whole epoch, median, the wait for the first batch included and
excluded.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import struct
import time

import numpy
import torch
from torchvision import transforms


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


p = argparse.ArgumentParser()
p.add_argument("--idx", default="../data/mnist")
p.add_argument("--workers", type=int, default=2)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--epochs", type=int, default=3)
a = p.parse_args()
torch.set_num_threads(2 if a.workers == 0 else 1)
loader = torch.utils.data.DataLoader(Mnist(a.idx), batch_size=a.batch, shuffle=True,
                                     num_workers=a.workers, persistent_workers=a.workers > 0)
whole, steady = [], []
for _ in range(a.epochs):
    begin, first, n = time.perf_counter(), None, 0
    for x, y in loader:
        n += len(y)
        if first is None:
            first, after = time.perf_counter(), n
    end = time.perf_counter()
    whole.append(n / (end - begin))
    steady.append((n - after) / (end - first))
print(json.dumps({
    "peer": "torch " + torch.__version__, "workers": a.workers, "batch": a.batch,
    "samples_per_s": round(statistics.median(whole)),
    "samples_per_s_after_first_batch": round(statistics.median(steady))}))
