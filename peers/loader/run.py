#!/usr/bin/env python3
"""Compares our loader with PyTorch's DataLoader: MNIST in memory, same normalization, interleaved.

    peers/loader/run.py --data FOLDER_WITH_MNIST --python PYTHON_WITH_TORCH [--python ANOTHER]

The summary compares the best of each side, with its best number of workers.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import measure  # noqa: E402

PEER = HERE.parent / "torch" / "torch_loader.py"
RATE = "samples_per_s"


def arguments():
    p = measure.parser(__doc__, "peers/bench_loader")
    p.add_argument("--data", required=True, help="folder of MNIST's files")
    p.add_argument("--python", action="append", default=[], help="with torch; may be repeated")
    p.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--out", default=measure.ROOT / "build" / "results" / "loader-cpu")
    return p.parse_args()


def contestants(a, pythons):
    runs = {}
    for workers in a.workers:
        size = ["--workers", workers, "--batch", a.batch]
        ours = [a.ours, "--dataset", "mnist", "--root", a.data, *size, "--prefetch", 2]
        runs[f"bellows, {workers} workers"] = ours
        if workers:
            runs[f"bellows, {workers} workers, rings"] = [*ours, "--rings"]
        for python, version in pythons.items():
            runs[f"torch {version}, {workers} workers"] = [python, PEER, "--idx", a.data, *size]
    return runs


def best(results, prefix):
    names = [name for name in results if name.startswith(prefix)]
    return max(names, key=lambda name: measure.middle(results[name], RATE), default=None)


INTRODUCTION = """# The loader on the CPU, beside PyTorch's DataLoader

MNIST's 60,000 images in memory, shuffled, normalized, in batches of {batch}. {rounds} rounds in
turns; samples a second of whole epochs, median (smallest to largest) over the rounds.

"""


def main():
    a = arguments()
    facts = measure.machine()
    runs = contestants(a, measure.with_torch(a.python))
    results = measure.take_turns(runs, a.rounds, lambda name: measure.run(runs[name], 1))
    rows = [[name, measure.rate_text(results[name], RATE)] for name in results]
    text = INTRODUCTION.format(**vars(a)) + measure.table(["", "samples/s"], rows) + "\n"
    ours, peer = best(results, "bellows"), best(results, "torch")
    if not ours:
        raise SystemExit("no result of ours, so there is nothing to compare")
    if peer:
        times = measure.ratio_text(results[peer], results[ours], RATE)
        text += f"The best of ours ({ours}) is {times} times as fast as the best peer ({peer}).\n\n"
    measure.write(a.out, text, facts, {"results": results})


if __name__ == "__main__":
    main()
