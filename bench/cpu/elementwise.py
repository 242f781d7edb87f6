#!/usr/bin/env python3
"""Compares elementwise ops of Bellows and PyTorch on the CPU: ns per element, forward and backward,
interleaved.

    bench/cpu/elementwise.py --python PYTHON_WITH_TORCH
    bench/cpu/elementwise.py --python PYTHON --elements 60000 --dtype bf16 --threads 1

In each round one process per side times every op (`trainer bench op --elements N --json`,
bench/peers/torch_elementwise.py). An op's time is the median over the rounds of each process's
median. Ratios are computed within each round.
"""
import argparse
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import measure  # noqa: E402

PEER = HERE.parent / "peers" / "torch_elementwise.py"
PASSES = ["forward", "backward"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default=measure.ROOT / "build" / "trainer")
    p.add_argument("--python", required=True, help="with torch")
    p.add_argument("--dtype", nargs="+", choices=["f32", "bf16", "f16"], default=["f32", "bf16"])
    p.add_argument("--elements", type=int, nargs="+", default=[60000, 1 << 22])
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--key", choices=["median", "fastest"], default="median",
                   help="of a process's turns: the fastest helps on a busy machine")
    p.add_argument("--out", default=measure.ROOT / "docs" / "measurements" / "elementwise-cpu")
    return p.parse_args()


def take_turns(a, dtype, elements, threads):
    size = ["--elements", elements, "--dtype", dtype]
    commands = {"bellows": [a.ours, "bench", "op", *size, "--json", "--device", "cpu"],
                "torch": [a.python, PEER, *size, "--threads", threads]}
    return measure.take_turns(commands, a.rounds,
                              lambda name: measure.run(commands[name], threads))


def times(results, op, one_pass, key):
    return [result["ops"][op][one_pass][key] for result in results]


def rows_of(a, ours, peer):
    """A row for each op that both sides have, and {(op, pass): peer's time / our time}."""
    rows, ratios = [], {}
    for op in sorted(set(ours[0]["ops"]) & set(peer[0]["ops"])):
        row = [f"`{op}`"]
        for one_pass in PASSES:
            us, them = (times(r, op, one_pass, a.key) for r in (ours, peer))
            each = [t / u for u, t in zip(us, them)]
            ratios[op, one_pass] = statistics.median(each)
            row += [f"{statistics.median(us):.3f}", f"{statistics.median(them):.3f}",
                    measure.spread(statistics.median(each), min(each), max(each))]
        rows.append(row)
    return rows, ratios


def section(a, dtype, elements, threads, results):
    ours, peer = results["bellows"], results["torch"]
    header = ["", *(f"{one_pass}: {column}" for one_pass in PASSES
                    for column in ("ours", "PyTorch", "times ours"))]
    rows, ratios = rows_of(a, ours, peer)
    slower = [f"{op} {one_pass} ({ratio:.2f})" for (op, one_pass), ratio in ratios.items()
              if ratio < 1]
    text = f"## {dtype}, {elements} elements, threads: {threads}\n\n{measure.table(header, rows)}\n"
    return text + f"Slower than PyTorch: {', '.join(slower) or 'none'}.\n\n"


INTRODUCTION = """# Elementwise ops on the CPU, beside PyTorch

ns an element. Forward without a graph; backward alone, into fresh gradients. {rounds} rounds, in
turns, each turn a process of its own that times every op seven times for 10 ms; a time is the
median over the rounds of the {key} of a process, a ratio is taken within each round: median
(smallest to largest).

"""


def main():
    a = arguments()
    cores = len(os.sched_getaffinity(0))
    if max(a.threads) > cores:
        raise SystemExit(f"--threads {max(a.threads)}: this machine has {cores} cores")
    facts, text, every = measure.machine(), INTRODUCTION.format(**vars(a)), []
    for dtype in a.dtype:
        for elements in a.elements:
            for threads in a.threads:
                results = take_turns(a, dtype, elements, threads)
                if len(results) < 2:
                    raise SystemExit(f"only {list(results)} ran, so there is nothing to compare")
                text += section(a, dtype, elements, threads, results)
                every.append({"dtype": dtype, "elements": elements, "threads": threads,
                              "results": results})
    facts["load average after"] = measure.load_average()
    facts["peer"] = every[0]["results"]["torch"][0]["peer"]
    facts["command"] = (f"bench/cpu/elementwise.py --dtype {' '.join(a.dtype)} --elements "
                        f"{' '.join(map(str, a.elements))} --threads "
                        f"{' '.join(map(str, a.threads))} --rounds {a.rounds} --key {a.key}")
    measure.write(a.out, text + measure.bullets(facts), {"machine": facts, "runs": every})


if __name__ == "__main__":
    main()
