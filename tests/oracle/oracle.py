"""Models in PyTorch, and the safetensors format in a few lines."""
import json
import struct

import numpy as np
import torch
from torch import nn

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64,
          "I32": np.int32, "U8": np.uint8}


class LeNet(nn.Module):
    """The layers of models/lenet.cpp under the same names."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Block(nn.Module):
    """The layer transformer_block."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        heads = [z.view(b, t, self.heads, -1).transpose(1, 2)
                 for z in self.qkv(self.norm1(x)).split(width, 2)]
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """The modules of models/gpt.cpp under the same names, with tied weights."""

    def __init__(self, vocabulary, longest, layers, width, heads):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = self.tokens(x) + self.places.weight[: x.shape[1]]
        return nn.functional.linear(self.norm(self.blocks(x)), self.tokens.weight)


def resnet18():
    """torchvision's, with the usual stem for CIFAR: a 3 x 3 convolution without pooling."""
    from torchvision.models import resnet18  # only what uses it needs torchvision
    model = resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model, (8, 3, 32, 32)


def resnet50():
    from torchvision.models import resnet50
    return resnet50(num_classes=10), (4, 3, 64, 64)


def write_safetensors(path, arrays):
    """Writes `arrays` (name -> numpy array), widest element type first, so that all are aligned."""
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    tags = {np.dtype(kind): tag for tag, kind in DTYPES.items()}
    header, end = {}, 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": tags[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())


def read_safetensors(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        part = data[slice(*entry["data_offsets"])]
        arrays[name] = np.frombuffer(part, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def load_model(path):
    """Loads a LeNet strictly: exactly its parameters, with their shapes."""
    model = LeNet()
    model.load_state_dict({name: torch.tensor(a) for name, a in read_safetensors(path).items()})
    return model
