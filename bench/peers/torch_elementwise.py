#!/usr/bin/env python3
"""PyTorch's elementwise ops, timed as `trainer bench op --elements N --json` times ours.

    torch_elementwise.py --elements 60000 --dtype f32 --threads 2

Forward runs without a graph. Backward alone runs repeatedly over one graph, into new gradients.
Prints one JSON line: ns per element by op and pass, median and fastest of the rounds.
"""
import argparse
import json
import os
import statistics
import time

ROUNDS, TURN_S = 7, 0.01  # as in core/device/timer.h


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--elements", type=int, required=True)
    p.add_argument("--dtype", choices=["f32", "bf16", "f16"], default="f32")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    return p.parse_args()


a = arguments()
os.environ["OMP_NUM_THREADS"] = str(a.threads)
import torch  # noqa: E402  (after the thread count is set)
from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(a.threads)
torch.manual_seed(0)
DTYPE = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[a.dtype]
POSITIVE = {"log", "sqrt", "div"}
UNARY = {"abs": torch.abs, "affine": lambda x: x * -1.5 + 2, "dropout": lambda x: F.dropout(x, 0.3),
         "exp": torch.exp, "gelu": F.gelu, "log": torch.log, "relu": torch.relu,
         "sigmoid": torch.sigmoid, "silu": F.silu, "sqrt": torch.sqrt, "square": torch.square,
         "tanh": torch.tanh}
BINARY = {"add": torch.add, "add_relu": lambda a, b: torch.relu(a + b), "div": torch.div,
          "maximum": torch.maximum, "minimum": torch.minimum, "mul": torch.mul, "sub": torch.sub}


def seconds_of(call, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - begin


def measure(call):
    calls = 1
    while seconds_of(call, calls) < TURN_S:
        calls *= 2
    rounds = [1e9 * seconds_of(call, calls) / calls / a.elements for _ in range(ROUNDS)]
    return {"median": statistics.median(rounds), "fastest": min(rounds)}


def make_input(name):
    x = torch.randn(a.elements)
    return (x.abs() + 0.5 if name in POSITIVE else x).to(DTYPE).requires_grad_()


def backward_of(op, inputs):
    y = op(*inputs)
    dy = torch.ones_like(y)

    def call():
        y.backward(dy, retain_graph=True)
        for x in inputs:
            x.grad = None
    return call


def forward_of(op, inputs):
    def call():
        with torch.no_grad():
            op(*inputs)
    return call


def main():
    ops = {}
    for name, op in sorted((UNARY | BINARY).items()):
        inputs = [make_input(name) for _ in range(2 if name in BINARY else 1)]
        ops[name] = {"forward": measure(forward_of(op, inputs)),
                     "backward": measure(backward_of(op, inputs))}
    print(json.dumps({"peer": "torch " + torch.__version__, "dtype": a.dtype,
                      "threads": torch.get_num_threads(), "ops": ops}))


main()
