#!/usr/bin/env python3
"""Compares the cost of reading a sample by file format: as published, and packed, interleaved.

    bench/loader/formats.py --mnist FOLDER --cifar10 FOLDER --photos FOLDER_WITH_train_AND_val

One thread, no workers, so samples per second of CPU time are samples per second and core. Packed
data sets go into a temporary folder. All files are in the page cache.
"""
import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import measure  # noqa: E402

RATE = "samples_per_cpu_s"


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    build = measure.ROOT / "build"
    p.add_argument("--ours", default=build / "bench" / "bench_loader")
    p.add_argument("--trainer", default=build / "trainer")
    p.add_argument("--mnist", help="folder of its IDX files")
    p.add_argument("--cifar10", help="folder of its .bin files")
    p.add_argument("--photos", help="for image_folder, with train and val")
    p.add_argument("--crop", type=int, default=128, help="of the photos")
    p.add_argument("--side", type=int, default=160, help="shorter side of those made smaller")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--out", default=measure.ROOT / "docs" / "measurements" / "formats-cpu")
    return p.parse_args()


def packed(a, name, root, folder, *options):
    said = measure.capture([a.trainer, "pack", f"data={{name: {name}, root: {root}}}",
                            "toggles=none", "--out", folder, *options])
    if said.returncode != 0:
        raise SystemExit(measure.last_line(said.stderr))
    return sum(file.stat().st_size for file in folder.glob("train-*"))


def size_of(root, patterns):
    root = pathlib.Path(root)
    return sum(file.stat().st_size for pattern in patterns for file in root.glob(pattern))


def contestants(a, folder):
    """Returns {name: command} and {name: size of the files in bytes}."""
    sets = [("mnist", a.mnist, "IDX", ["train-*"], {"raw": []}),
            ("cifar10", a.cifar10, "bin", ["data_batch_*"],
             {"raw": [], "jpeg": ["--encoding", "jpeg"]}),
            ("image_folder", a.photos, "JPEG files", ["train/*/*"],
             {"the same files": [], f"JPEG, side {a.side}": ["--side", a.side],
              f"raw, side {a.side}": ["--side", a.side, "--encoding", "raw"]})]
    runs, sizes = {}, {}
    for name, root, published, patterns, encodings in sets:
        if not root:
            continue
        crop = ["--transform", "random_resized_crop", "--transform", "normalize", "--crop",
                a.crop] if name == "image_folder" else []
        common = ["--workers", 0, "--epochs", 3, *crop]
        title = "photos" if crop else name
        first = f"{title}: {published}"
        runs[first] = [a.ours, "--dataset", name, "--root", root, *common]
        sizes[first] = size_of(root, patterns)
        for what, options in encodings.items():
            row = f"{title}: packed, {what}"
            target = folder / row.replace(" ", "_")
            sizes[row] = packed(a, name, root, target, *options)
            runs[row] = [a.ours, "--dataset", "packed", "--root", target, *common]
    return runs, sizes


INTRODUCTION = """# What a sample costs, by format

Normalized batches of 64 in random order, one thread without workers; photos: a random part made
{crop} x {crop}. {rounds} rounds in turns; samples a second of CPU time, that is a second and core,
median (smallest to largest) over the rounds. All files are in the system's cache, so what a disk
would save by reading few large files in order is not in here; `opens` are files opened an epoch.

"""


def main():
    a = arguments()
    facts = measure.machine()
    with tempfile.TemporaryDirectory() as folder:
        runs, sizes = contestants(a, pathlib.Path(folder))
        results = measure.take_turns(runs, a.rounds, lambda name: measure.run(runs[name], 1))
    rows = [[name, measure.rate_text(results[name], RATE), results[name][0]["file_opens"],
             f"{sizes[name] / 1e6:.1f}"] for name in results]
    header = ["format", "samples/s and core", "opens", "MB"]
    facts["load average after"] = measure.load_average()
    facts["command"] = (f"bench/loader/formats.py --rounds {a.rounds} --crop {a.crop} "
                        f"--side {a.side} --mnist ... --cifar10 ... --photos ...")
    measure.write(a.out, INTRODUCTION.format(**vars(a)) + measure.table(header, rows) + "\n" +
                  measure.bullets(facts), {"machine": facts, "sizes": sizes, "results": results})


if __name__ == "__main__":
    main()
