#!/usr/bin/env python3
"""Measures what settings of the environment do to a training run: allocators and Intel's OpenMP by
LD_PRELOAD, how OpenMP's threads wait, and where they stay.

    peers/environment.py --config configs/lenet.yaml [key=value ...]

Each setting is a run of its own, in turns with the others. A speed is the median over the rounds; a
ratio is taken within each round: median (smallest to largest). Libraries that are not installed
are left out.
"""
import ctypes.util
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402

LIBRARIES = ["jemalloc", "tcmalloc_minimal", "mimalloc", "iomp5"]
OPENMP = [{"OMP_WAIT_POLICY": "passive"}, {"OMP_WAIT_POLICY": "active"},
          {"OMP_PROC_BIND": "close"}, {"OMP_PROC_BIND": "spread"}]


def settings():
    found = [ctypes.util.find_library(name) for name in LIBRARIES]
    for name, library in zip(LIBRARIES, found):
        if not library:
            measure.complain(f"left out: {name} is not installed")
    every = [{}, *({"LD_PRELOAD": library} for library in found if library), *OPENMP]
    return {" ".join(f"{k}={v}" for k, v in e.items()) or "nothing set": e for e in every}


def main():
    p = measure.parser(__doc__)
    p.add_argument("--trainer", default=measure.ROOT / "build" / "trainer")
    p.add_argument("--config", default=measure.ROOT / "configs" / "lenet.yaml")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("overrides", nargs="*", metavar="key=value")
    a = p.parse_args()
    environments = settings()

    def speed(name):
        with tempfile.TemporaryDirectory() as folder:
            ran = measure.capture([a.trainer, "--config", a.config, "--run-dir", f"{folder}/run",
                                   *a.overrides], **environments[name])
        said = re.search(r"^done: .* ([\d.]+) \S+/sec$", ran.stdout, re.MULTILINE)
        if ran.returncode or not said:
            measure.complain(f"failed with {ran.returncode}: {measure.last_line(ran.stderr)}")
            return None
        return {"ips": float(said[1])}

    for name in ("LD_PRELOAD", "OMP_WAIT_POLICY", "OMP_PROC_BIND"):
        os.environ.pop(name, None)
    speeds = measure.take_turns(environments, a.rounds, speed)
    plain = speeds.get("nothing set")
    if not plain:
        return 1
    for name, runs in speeds.items():
        print(f"{name:32} {measure.middle(runs, 'ips'):12.1f} samples/s  times as fast: "
              f"{measure.ratio_text(plain, runs, 'ips')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
