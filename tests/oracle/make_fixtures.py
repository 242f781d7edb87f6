#!/usr/bin/env python3
"""Writes the fixtures with which C++ tests compare our results, which need no PyTorch themselves.

    make_fixtures.py [--lenet-weights EXPORTED.safetensors] NAME...

lenet      weights, a batch, and the loss and gradients. The weights are those that `trainer export`
           wrote, or random. The committed ones are those after one epoch on MNIST.
gpt        weights, tokens for 100 updates, and the losses with AdamW
resize     an image, and the antialiased resize of parts of it that torchvision's transforms call
resnet18, resnet50
           results of one training step in f64

Weights and images of the ResNets come from a formula, here and in
tests/models/resnet_oracle_test.cpp:

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
import argparse
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, interpolate

from oracle import GPT, LeNet, load_model, resnet18, resnet50, write_safetensors


def save(name, fixture):
    path = pathlib.Path(__file__).parent / f"{name}.safetensors"
    write_safetensors(path, {key: t.contiguous().numpy() for key, t in fixture.items()})
    print(f"{path}: {path.stat().st_size} bytes")


def save_lenet(weights):
    torch.manual_seed(2)
    model = load_model(weights) if weights else LeNet()
    images, labels = torch.randn(8, 1, 28, 28), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    loss = cross_entropy(model(images), labels)
    loss.backward()
    fixture = {"images": images, "labels": labels, "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        fixture |= {name: parameter.detach(), "grad." + name: parameter.grad}
    save("lenet", fixture)


def save_gpt():
    torch.manual_seed(3)
    model = GPT(vocabulary=13, longest=12, layers=2, width=16, heads=4)
    for name, parameter in model.named_parameters():
        if name in ("tokens.weight", "places.weight"):
            nn.init.normal_(parameter, std=0.02)
    fixture = {name: p.detach().clone() for name, p in model.named_parameters()}
    tokens = torch.randint(0, 13, (100, 4, 13))
    tokens[:, :, 1::2] = tokens[:, :, 0:1] // 2  # something to learn
    targets = tokens[:, :, 1:].clone()
    targets[:, :, :3] = -1
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
    losses = []
    for x, y in zip(tokens[:, :, :-1], targets):
        loss = cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    save("gpt", fixture | {"x": tokens[:, :, :-1], "y": targets, "losses": torch.tensor(losses)})


def save_resize():
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
    save("resize", fixture)


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


def save_resnet(make):
    model, shape = make()
    for name, p in model.named_parameters():
        p.data = value(name, p.shape)
    images = numbers("images", shape)
    given = keep_off_zero(model.double(), images)
    exact = kept_of(*step(make, torch.float64, given))

    fixture = {name: t.float() for name, t in (exact | {"images": samples(images)}).items()}
    fixture |= {name: bias.half() for name, bias in given.items()}
    fixture["labels"] = labels_of(shape)
    save(make.__name__, fixture)

    for layout in torch.contiguous_format, torch.channels_last:
        rounded = kept_of(*step(make, torch.float32, given, layout))
        print(f"  PyTorch's own f32, {layout}, differs by at most, in parts of the largest:")
        for kind in "loss", "grad.", "whole.", "running_mean", "running_var":
            worst = max(distance(rounded[n], t) for n, t in exact.items() if kind in n)
            print(f"    {kind} {worst:.1e}")


parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lenet-weights")
SAVES = {"lenet": lambda: save_lenet(arguments.lenet_weights), "gpt": save_gpt,
         "resize": save_resize, "resnet18": lambda: save_resnet(resnet18),
         "resnet50": lambda: save_resnet(resnet50)}
parser.add_argument("names", nargs="+", choices=SAVES)
arguments = parser.parse_args()
torch.set_num_threads(1)
for name in arguments.names:
    SAVES[name]()
