#!/usr/bin/env python3
"""Compares loading JPEG files into 224 x 224 batches: Bellows and torchvision, on one core and on
two, interleaved.

    peers/loader/jpeg.py --data FOLDER_OF_CLASSES --python PYTHON_WITH_TORCHVISION

Photos in their original size, and scaled to 512 pixels at quality 90. Bellows decodes whole images,
or only what the crop needs (scaled_decode). The peer decodes with Pillow, or with torchvision.
"""
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import measure  # noqa: E402

PEERS = HERE.parent / "torch"
TRANSFORMS = ["random_resized_crop", "random_flip", "normalize"]
FULL, SCALED = "bellows, whole pictures", "bellows, scaled_decode"
WALL, CPU = "samples_per_s", "samples_per_cpu_s"
PHOTOS = {"as they are": [], "512 pixels, quality 90": ["--side", 512]}


def arguments():
    p = measure.parser(__doc__, "peers/bench_loader")
    p.add_argument("--data", required=True, help="a folder for each class, of .jpg files")
    p.add_argument("--python", required=True, help="with torch, torchvision and Pillow")
    p.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--photos", type=int, default=1024, help="about so many of them")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--out", default=measure.ROOT / "build" / "results" / "jpeg-cpu")
    return p.parse_args()


def contestants(a, root, cores):
    """One worker per core. On one core ours has no workers, and the peer runs with 0 and 1."""
    on_cores = ["taskset", "-c", f"0-{cores - 1}"]
    size = ["--batch", a.batch, "--epochs", 3]
    ours = [*on_cores, a.ours, "--dataset", "image_folder", "--root", root, *size, "--prefetch", 2,
            "--workers", cores if cores > 1 else 0, "--transform", *TRANSFORMS]
    runs = {FULL: ours, SCALED: [*ours, "--scaled-decode"]}
    for decoder in ("pillow", "torchvision"):
        for workers in [0, 1] if cores == 1 else [cores]:
            runs[f"DataLoader, {decoder}, {workers} workers"] = [
                *on_cores, a.python, PEERS / "torch_loader.py", "--images", f"{root}/train",
                "--decoder", decoder, "--workers", workers, "--warmup", 1, *size]
    return runs


def write_photos(a, root, options):
    made = measure.run([a.python, PEERS / "write_photos.py", a.data, f"{root}/train", "--photos",
                        a.photos, *options], 1)
    return made or sys.exit("no photos, so there is nothing to measure")


def section(cores, results):
    def times(other, key):
        return measure.ratio_text(results[other], results[SCALED], key)
    rows = [[name, *(measure.rate_text(results[name], key) for key in (WALL, CPU)),
             *(times(name, key) if name != SCALED else "" for key in (WALL, CPU))]
            for name in results]
    header = ["", "images/s", "images per CPU second", "scaled_decode is faster by: wall",
              "CPU time"]
    text = f"### Cores: {cores}\n\n{measure.table(header, rows)}\n"
    peers = [name for name in results if name.startswith("DataLoader")]
    for key, clock in ((WALL, "wall time"), (CPU, "CPU time")):
        best = max(peers, key=lambda name: measure.middle(results[name], key))
        text += (f"By {clock} scaled_decode is {times(FULL, key)} times as fast "
                 f"as whole pictures, and {times(best, key)} times as fast as the "
                 f"best peer ({best}).\n")
    return text + "\n"


INTRODUCTION = """# JPEG files to batches on the CPU, beside torchvision

An ImageFolder, shuffled: each photo a random part (8 to 100 % of its area) made 224 x 224, flipped
by chance, normalized, f32, in batches of {batch}. {rounds} rounds in turns, each arm a process that
is pinned to the cores: an epoch to get warm, then three whose median counts; median (smallest to
largest) over the rounds, ratios taken within each round. The files are in the page cache. On two
cores ours and the peer have two workers. A busy machine falsifies wall times more than CPU times,
which are of all threads and processes.

"""


def main():
    a = arguments()
    facts = measure.machine()
    facts["torch"] = measure.torch_version(a.python) or sys.exit(f"{a.python} has no torch")
    text, every = INTRODUCTION.format(**vars(a)), []
    for photos, options in PHOTOS.items():
        with tempfile.TemporaryDirectory() as root:
            made = write_photos(a, root, options)
            text += (f"## Photos {photos}\n\n{made['photos']} files, on average of "
                     f"{made['mean_pixels']} pixels and {made['mean_bytes']} bytes.\n\n")
            for cores in a.cores:
                runs = contestants(a, root, cores)
                results = measure.take_turns(runs, a.rounds,
                                             lambda name: measure.run(runs[name], 1))
                text += section(cores, results)
                every.append({"photos": photos, **made, "cores": cores, "results": results})
    measure.write(a.out, text, facts, {"runs": every})


if __name__ == "__main__":
    main()
