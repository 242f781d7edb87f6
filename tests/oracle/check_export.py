#!/usr/bin/env python3
"""Does a LeNet that `trainer export` wrote mean the same to PyTorch?

    check_export.py EXPORTED.safetensors MNIST_FOLDER ACCURACY

Loads it strictly and compares PyTorch's accuracy on the test images with what `trainer eval` said.
"""
import gzip
import pathlib
import sys

import numpy as np
import torch

from oracle import load_model

exported, folder, accuracy = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3])


def read_idx(name, header):
    with gzip.open(folder / f"{name}.gz") as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


images = torch.tensor(read_idx("t10k-images-idx3-ubyte", 16)).view(-1, 1, 28, 28).float() / 255
labels = torch.tensor(read_idx("t10k-labels-idx1-ubyte", 8)).long()
with torch.no_grad():
    logits = load_model(exported)((images - 0.1307) / 0.3081)
measured = (logits.argmax(1) == labels).float().mean().item()
print(f"PyTorch: {measured:.4f}, Bellows: {accuracy:.4f}")
# Two images may fall to the other side of a tie.
sys.exit(0 if abs(measured - accuracy) <= 2.5e-4 else 1)
