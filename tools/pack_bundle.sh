#!/usr/bin/env bash
# Packs a bundle as FOLDER.tar.xz:  tools/pack_bundle.sh FOLDER
# Exit 1 if the archive is too large to travel with a job. python3 unpacks it.
set -euo pipefail
folder=$1 most_mib=55

# The programs are nearly identical, so a dictionary that spans two of them matters, and a thorough
# search does not. Unpacking needs as much memory as the dictionary.
tar -C "$(dirname "$folder")" -c "$(basename "$folder")" |
  xz -T1 --lzma2=preset=0,dict=64MiB,depth=1,nice=64 >"$folder.tar.xz"
size=$(stat -c %s "$folder.tar.xz")
echo "pack_bundle: $folder.tar.xz: $((size >> 20)) MiB"
((size <= most_mib << 20)) && exit 0
echo "pack_bundle: $folder.tar.xz: that is more than $most_mib MiB; take less data along" >&2
exit 1
