#!/usr/bin/env python3
"""Writes resize.safetensors: an image, and PyTorch's antialiased resize of parts of it.

The committed file was made with PyTorch 2.15.0, whose interpolate() torchvision's Resize and
RandomResizedCrop call. tests/data/image_plan_test.cpp reads it and does not need PyTorch.
"""
import pathlib

import torch
from torch.nn.functional import interpolate

from oracle import write_safetensors

torch.manual_seed(3)
picture = torch.randint(0, 256, (3, 23, 31)).float()
fixture = {"picture": picture}
# Top, left, height and width of the part, height and width of the result.
for part in [(0, 0, 23, 31, 9, 13), (0, 0, 23, 31, 40, 37), (4, 6, 15, 21, 16, 16),
             (7, 1, 11, 30, 12, 5), (22, 0, 1, 31, 3, 8)]:
    top, left, height, width, *size = part
    source = picture[None, :, top:top + height, left:left + width]
    resized = interpolate(source, size, mode="bilinear", antialias=True, align_corners=False)
    fixture["_".join(map(str, part))] = resized[0]
path = pathlib.Path(__file__).parent / "resize.safetensors"
write_safetensors(path, {name: t.numpy() for name, t in fixture.items()})
