#!/usr/bin/env python3
"""Losses of PyTorch's ResNet-18 over the first updates of CIFAR-10, in the files' order.

    torch_epoch.py --data FOLDER --weights start.safetensors --out losses.json

Images are only normalized. SGD with momentum 0.9, weight decay 5e-4 and a constant learning rate.
If the weights file does not exist, it is first written with PyTorch's initial weights.
"""
import argparse
import json
import os
import pathlib
import struct


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, help="folder of data_batch_1.bin to data_batch_5.bin")
    p.add_argument("--weights", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--mean", type=float, nargs=3, required=True)
    p.add_argument("--std", type=float, nargs=3, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--updates", type=int, default=391)
    p.add_argument("--layout", choices=["nchw", "nhwc"], default="nhwc")
    p.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    return p.parse_args()


a = arguments()
os.environ["OMP_NUM_THREADS"] = str(a.threads)
import torch  # noqa: E402  (after the thread count is set)
import torchvision  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(a.threads)
torch.manual_seed(0)
TYPES = {torch.float32: "F32", torch.int64: "I64"}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, tensor in tensors.items():
        data = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    types = {text: dtype for dtype, text in TYPES.items()}
    return {name: torch.frombuffer(bytearray(raw[8 + size:][slice(*entry["data_offsets"])]),
                                   dtype=types[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(raw[8:8 + size]).items()}


def pictures():
    """Returns images (N, 3, 32, 32), u8, and labels (N), in the files' order."""
    files = sorted(pathlib.Path(a.data).glob("data_batch_*.bin"))
    records = torch.cat([torch.frombuffer(bytearray(f.read_bytes()), dtype=torch.uint8)
                         for f in files]).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


model = torchvision.models.resnet18(num_classes=10)
model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
if not pathlib.Path(a.weights).exists():
    write_safetensors(a.weights, model.state_dict())
model.load_state_dict(read_safetensors(a.weights))
layout = torch.channels_last if a.layout == "nhwc" else torch.contiguous_format
model = model.to(memory_format=layout).train()
optimizer = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, weight_decay=5e-4)
images, labels = pictures()
mean, std = (torch.tensor(v).reshape(1, 3, 1, 1) for v in (a.mean, a.std))
losses = []
for first in range(0, len(labels), a.batch)[:a.updates]:
    x = ((images[first:first + a.batch] / 255 - mean) / std).to(memory_format=layout)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
        loss = nn.functional.cross_entropy(model(x), labels[first:first + a.batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
pathlib.Path(a.out).write_text(json.dumps({"torch": torch.__version__, "losses": losses}))
