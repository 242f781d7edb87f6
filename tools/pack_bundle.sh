#!/usr/bin/env bash
# Packs a bundle as FOLDER.tar.xz:  tools/pack_bundle.sh FOLDER
# Exit 1 if the archive of a bundle without data is too large.
set -euo pipefail
folder=$1 most_mb=50

# The programs are nearly identical, so a dictionary that spans two of them matters, and a thorough
# search does not. Unpacking needs as much memory as the dictionary.
tar -C "$(dirname "$folder")" -c "$(basename "$folder")" |
  xz -T1 --lzma2=preset=0,dict=64MiB,depth=1,nice=64 >"$folder.tar.xz"
size=$(stat -c %s "$folder.tar.xz")
echo "pack_bundle: $folder.tar.xz: $((size / 1000000)) MB"
[[ -e $folder/data ]] || ((size <= most_mb * 1000000)) && exit 0
echo "pack_bundle: $folder.tar.xz: that is more than $most_mb MB" >&2
exit 1
