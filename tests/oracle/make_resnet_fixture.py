#!/usr/bin/env python3
"""Writes resnet18.safetensors and resnet50.safetensors: results of one training step in PyTorch.

Weights and images come from a formula, here and in tests/models/resnet_oracle_test.cpp, which
needs no PyTorch. The files hold the results of one step in f64:

    labels, loss           mean cross-entropy in training mode
    images                 samples, to check that the formula is the same
    NAME of a parameter    values that replace the formula's: see keep_off_zero()
    grad.NAME              samples of the gradient
    whole.NAME             its L2 norm and its inner product with numbers("probe." + NAME), which
                           together detect any wrong element
    NAME of a buffer       samples of the running statistics after this forward pass

Samples of a tensor of n elements are those at k * n // kept, for k < kept = min(n, 23). 23 is not a
multiple of 3; otherwise all samples of a convolution would be at the same few taps.

The committed files were made with PyTorch 2.15.0 and torchvision 0.29.2.
"""
import pathlib

import numpy as np
import torch
import torchvision
from torch import nn

from oracle import write_safetensors


def resnet18():
    """torchvision's, with the usual stem for CIFAR: a 3 x 3 convolution without pooling."""
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model, (8, 3, 32, 32)


def resnet50():
    return torchvision.models.resnet50(num_classes=10), (4, 3, 64, 64)


def numbers(name, shape):
    """Uniform values in [-1, 1), exact in f32: FNV-1a of the name, then murmur3's finalizer."""
    start = 2166136261
    for c in name.encode():
        start = (start ^ c) * 16777619 & 0xffffffff
    h = np.arange(np.prod(shape), dtype=np.uint32) + np.uint32(start)
    h = (h ^ h >> 16) * np.uint32(0x85ebca6b)
    h = (h ^ h >> 13) * np.uint32(0xc2b2ae35)
    h ^= h >> 16
    return torch.tensor((h >> 8) * 2.0**-23 - 1).view(shape)


def value(name, shape):
    u = numbers(name, shape)
    if len(shape) > 1:
        exact = u * np.sqrt(6 / np.prod(shape[1:]))  # keeps the scale of its input: He et al.
    else:
        exact = 1 + u / 4 if name.endswith("weight") else u / 2
    return exact.float()


def keep_off_zero(model, images):
    """Chooses batch norm biases for which no input of a ReLU is near zero; returns them by name.

    ReLUs have millions of inputs, and rounding would decide the sign of the smallest. Each such
    decision changes some gradients by a hundredth, so no tolerance would be meaningful. Therefore
    each channel's bias starts at 5/4 or -5/4 and moves to the best of the nearby multiples of 1/64,
    which are exact in f16. For a sum of two branches, the bias of the branch computed last moves.

    The max pooling in ResNet-50's stem decides too: its two closest values are 7e-6 apart, about
    twenty roundings, which is enough so early in the network.
    """
    names = {module: name for name, module in model.named_modules()}
    last, given, margins = None, {}, []

    def after_norm(module, inputs, output):
        nonlocal last
        last = module

    def before_relu(module, inputs):
        name, old = names[last] + ".bias", last.bias.data
        middle = torch.copysign(torch.full_like(old, 1.25), numbers(name, old.shape))
        biases = middle + torch.arange(-32, 33)[:, None] / 64
        distances = torch.stack(
            [(inputs[0] + (b - old)[:, None, None]).abs().amin((0, 2, 3)) for b in biases])
        margins.append(distances.amax(0).min().item())
        given[name] = biases.gather(0, distances.argmax(0)[None])[0]
        moved = inputs[0] + (given[name] - old)[:, None, None]
        last.bias.data.copy_(given[name])
        return (moved,)

    hooks = [m.register_forward_hook(after_norm) for m in names if isinstance(m, nn.BatchNorm2d)]
    hooks += [m.register_forward_pre_hook(before_relu) for m in names if isinstance(m, nn.ReLU)]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    print(f"  the nearest to zero that reaches a ReLU: {min(margins):.0e}")
    return given


def step(make, dtype, given, layout=torch.contiguous_format):
    """The loss, the gradients and the buffers after one forward and backward pass, all as f64."""
    model, shape = make()
    for name, p in model.named_parameters():
        p.data = given.get(name, value(name, p.shape))
    model = model.to(dtype=dtype, memory_format=layout)
    images = numbers("images", shape).to(dtype=dtype, memory_format=layout)
    loss = nn.functional.cross_entropy(model(images), labels_of(shape))
    loss.backward()
    gradients = {name: p.grad.double().contiguous() for name, p in model.named_parameters()}
    return loss.detach().double(), gradients, {n: b.double() for n, b in model.named_buffers()}


def labels_of(shape):
    return (3 * torch.arange(shape[0]) + 1) % 10


def samples(t):
    kept = min(t.numel(), 23)
    return t.flatten()[torch.arange(kept) * t.numel() // kept]


def whole(name, t):
    return torch.stack([t.norm(), (t * numbers("probe." + name, t.shape)).sum()])


def distance(got, expected):
    """The largest difference, relative to the largest magnitude of `expected`."""
    return ((got - expected).abs().max() / expected.abs().max()).item()


def kept_of(loss, gradients, buffers):
    """The tensors of a step that the fixture contains."""
    return ({"loss": loss}
            | {"grad." + name: samples(g) for name, g in gradients.items()}
            | {"whole." + name: whole(name, g) for name, g in gradients.items()}
            | {name: samples(b) for name, b in buffers.items()})


def make_fixture(make):
    model, shape = make()
    for name, p in model.named_parameters():
        p.data = value(name, p.shape)
    images = numbers("images", shape)
    print(make.__name__)
    given = keep_off_zero(model.double(), images)
    exact = kept_of(*step(make, torch.float64, given))

    fixture = {name: t.float() for name, t in (exact | {"images": samples(images)}).items()}
    fixture |= {name: bias.half() for name, bias in given.items()}
    fixture["labels"] = labels_of(shape)
    path = pathlib.Path(__file__).parent / f"{make.__name__}.safetensors"
    write_safetensors(path, {name: t.numpy() for name, t in fixture.items()})
    print(f"  {path.name}: {path.stat().st_size} bytes, loss {exact['loss'].item():.7f}")

    for layout in torch.contiguous_format, torch.channels_last:
        rounded = kept_of(*step(make, torch.float32, given, layout))
        print(f"  PyTorch's own f32, {layout}, differs by at most, in parts of the largest:")
        for kind in "loss", "grad.", "whole.", "running_mean", "running_var":
            worst = max(distance(rounded[n], t) for n, t in exact.items() if kind in n)
            print(f"    {kind} {worst:.1e}")


torch.set_num_threads(1)
for make in resnet18, resnet50:
    make_fixture(make)
