#!/usr/bin/env bash
# Builds a bundle: a folder with programs, tests and benchmarks, and a packed copy of it. It runs on
# machines that have a driver, the CUDA and cuDNN libraries (pip's are enough) and python3.
#   tools/bundle.sh FOLDER [--data FOLDER]... [--unpacked]
# --data adds a data set's folder as data/<its name>. On the target,  FOLDER/run  starts a program,
# and  FOLDER/tools/gpu_check.sh  runs all tests and measurements.
called_in=$PWD
source "$(dirname "$0")/setup.sh"

from_there() { [[ $1 == /* ]] && echo "$1" || echo "$called_in/$1"; }
folder= data=() pack=yes
while (($#)); do
  case $1 in
  --data)
    [[ ${2-} && -d $(from_there "$2") ]] || refuse "--data: ${2-} is no folder"
    data+=("$(from_there "$2")")
    shift
    ;;
  --unpacked) pack= ;;
  -*) refuse "unknown argument $1; it takes --data and --unpacked" ;;
  *) [[ ! $folder ]] && folder=$(from_there "$1") || refuse "one folder, not $folder and $1" ;;
  esac
  shift
done
[[ $folder ]] || refuse "name the folder to make:  tools/bundle.sh build/bundle"
[[ ! -e $folder || -x $folder/run ]] || refuse "$folder is there, and is no bundle"

need_packages "${build_packages[@]}" binutils xz-utils
need_wheels
build release -- bundled
rm -rf -- "$folder"
cmake --install build --prefix "$folder" --strip >/dev/null
tools/check_bundle.sh "$folder"
for set in "${data[@]}"; do
  mkdir -p "$folder/data"
  cp -r -- "$set" "$folder/data/"
done
[[ ! $pack ]] || tools/pack_bundle.sh "$folder"
