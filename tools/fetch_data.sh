#!/usr/bin/env bash
# Downloads a data set in its published format and verifies it. Keeps files that are correct:
#   tools/fetch_data.sh mnist|cifar10 [--from URL-or-folder] [--to folder]
# --from: a folder with the files, or a URL to which file names are appended. --to: the target
# folder, for use as data.root (default: datasets/<name>).
called_in=$PWD
source "$(dirname "$0")/setup.sh"

name=${1-} from=() to=datasets/${1-}
case $name in
mnist)
  mirrors=(https://ossci-datasets.s3.amazonaws.com/mnist
    https://storage.googleapis.com/cvdf-datasets/mnist)
  check=sha256sum
  sums="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz"
  ;;
cifar10)
  mirrors=(https://www.cs.toronto.edu/~kriz)
  check=md5sum # the author publishes an MD5 sum
  sums="c32a1d4ab5d03f1284b67883e8d87530  cifar-10-binary.tar.gz"
  ;;
*) refuse "which data set? write  tools/fetch_data.sh mnist  or  tools/fetch_data.sh cifar10" ;;
esac
shift
while (($#)); do
  (($# > 1)) || refuse "$1 needs a value"
  case $1 in
  --from) [[ $2 == *://* || $2 == /* ]] && from=("$2") || from=("$called_in/$2") ;;
  --to) [[ $2 == /* ]] && to=$2 || to=$called_in/$2 ;;
  *) refuse "unknown argument $1; it takes --from and --to" ;;
  esac
  shift 2
done
((${#from[@]})) || from=("${mirrors[@]}")
partial=$to/.partial.$$ why=

# Fetches a file to $partial from the first source where the checksum matches.
fetch() { # <file> <its checksum>
  local place
  for place in "${from[@]}"; do
    if [[ $place == *://* ]]; then
      why=$(curl -fsSL --retry 2 --connect-timeout 20 -o "$partial" "$place/$1" 2>&1) || continue
    else
      why=$(cp --no-preserve=mode -- "$place/$1" "$partial" 2>&1) || continue
    fi
    $check --status -c <<<"$2  $partial" && return
    why="$place/$1 has other bytes than the published file"
  done
  return 1
}

[[ ${from[0]} == *://* ]] && need_packages curl ca-certificates
mkdir -p "$to" || refuse "cannot make the folder $to"
trap 'rm -rf -- "$partial"' EXIT
while read -r sum file; do
  $check --status -c 2>/dev/null <<<"$sum  $to/$file" && continue
  fetch "$file" "$sum" || refuse "cannot get $file: ${why##*$'\n'}; try --from"
  mv -- "$partial" "$to/$file"
done <<<"$sums"
if [[ $name == cifar10 && ! -d $to/cifar-10-batches-bin ]]; then
  mkdir "$partial" && tar -xzf "$to/cifar-10-binary.tar.gz" -C "$partial" &&
    mv -- "$partial/cifar-10-batches-bin" "$to/" || refuse "cannot unpack into $to"
fi
echo "$name is in $to: write  data.root=$to"
