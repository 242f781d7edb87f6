#!/usr/bin/env python3
"""Writes lenet.safetensors: weights, a batch, and the loss and gradients that PyTorch computes.

    make_fixture.py [--weights EXPORTED.safetensors]

The weights are those in the file that `trainer export` wrote, or random without --weights. The
committed file has the weights after one epoch on MNIST and was made with PyTorch 2.15.0.
tests/models/oracle_test.cpp reads it and does not need PyTorch.
"""
import argparse
import pathlib

import torch

from oracle import LeNet, load_model, write_safetensors

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--weights")
arguments = parser.parse_args()

torch.manual_seed(2)
torch.set_num_threads(1)
model = load_model(arguments.weights) if arguments.weights else LeNet()
images, labels = torch.randn(8, 1, 28, 28), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])


def loss_and_gradients(model, images):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    model.zero_grad()
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    return loss.detach(), gradients


loss, gradients = loss_and_gradients(model, images)
fixture = {"images": images, "labels": labels, "loss": loss}
for name, parameter in model.named_parameters():
    fixture[name] = parameter.detach().clone()
    fixture["grad." + name] = gradients[name]
path = pathlib.Path(__file__).parent / "lenet.safetensors"
write_safetensors(path, {name: t.numpy() for name, t in fixture.items()})

_, exact = loss_and_gradients(model.double(), images.double())
worst = max(((gradients[n] - g).abs().max() / g.abs().max()).item() for n, g in exact.items())
print(f"{path}: {path.stat().st_size} bytes, loss {loss.item():.7f}; "
      f"PyTorch's own f32 gradients differ from its f64 ones by {worst:.1e} of the largest")
