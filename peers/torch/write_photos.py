#!/usr/bin/env python3
"""Writes photos for the JPEG benchmark as an ImageFolder:  write_photos.py FROM TO [--side 512]

FROM has a folder per class. Every n-th photo is taken, for a total of about --photos. Photos are
copied unchanged, or with --side scaled to that longer side and compressed again at quality 90
(4:2:0, baseline). Prints one JSON line with their number, mean pixels and mean bytes.
"""
import argparse
import json
import pathlib
import shutil

from PIL import Image

p = argparse.ArgumentParser()
p.add_argument("source", type=pathlib.Path)
p.add_argument("target", type=pathlib.Path)
p.add_argument("--side", type=int)
p.add_argument("--photos", type=int, default=1024)
a = p.parse_args()
photos = sorted(a.source.glob("*/*.jpg"))
photos = photos[::max(1, len(photos) // a.photos)]
if not photos:
    raise SystemExit(f"{a.source}: no folder of a class with .jpg files in there")
pixels = size = 0
for photo in photos:
    target = a.target / photo.parent.name / photo.name
    target.parent.mkdir(parents=True, exist_ok=True)
    image = Image.open(photo)
    if a.side:
        scale = a.side / max(image.size)
        image = image.convert("RGB").resize([round(side * scale) for side in image.size],
                                            Image.Resampling.BICUBIC)
        image.save(target, quality=90)
    else:
        shutil.copyfile(photo, target)
    pixels += image.width * image.height
    size += target.stat().st_size
print(json.dumps({"photos": len(photos), "mean_pixels": round(pixels / len(photos)),
                  "mean_bytes": round(size / len(photos))}))
