#!/usr/bin/env python3
"""Writes gpt.safetensors: weights, tokens for 100 updates, and the losses that PyTorch computes with
AdamW. The committed file was made with PyTorch 2.15.0. tests/models/gpt_oracle_test.cpp reads it.
"""
import pathlib

import torch

from oracle import GPT, write_safetensors

torch.manual_seed(3)
torch.set_num_threads(1)
model = GPT(vocabulary=13, longest=12, layers=2, width=16, heads=4)
for name, parameter in model.named_parameters():
    if name in ("tokens.weight", "places.weight"):
        torch.nn.init.normal_(parameter, std=0.02)
fixture = {name: p.detach().clone() for name, p in model.named_parameters()}
tokens = torch.randint(0, 13, (100, 4, 13))
tokens[:, :, 1::2] = tokens[:, :, 0:1] // 2  # something to learn
targets = tokens[:, :, 1:].clone()
targets[:, :, :3] = -1
optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
losses = []
for x, y in zip(tokens[:, :, :-1], targets):
    loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
fixture |= {"x": tokens[:, :, :-1], "y": targets, "losses": torch.tensor(losses)}
path = pathlib.Path(__file__).parent / "gpt.safetensors"
write_safetensors(path, {name: t.contiguous().numpy() for name, t in fixture.items()})
print(f"{path}: {path.stat().st_size} bytes, losses {losses[0]:.6f} to {losses[-1]:.6f}")
