# Functions for the scripts that source this file: install missing packages and oneDNN 3 on Debian
# 12, configure and build. Each step checks first, so a second run is fast. If something is missing,
# prints it in one line and exits with 2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(g++ cmake ninja-build ccache python3-venv libeigen3-dev libyaml-cpp-dev
  nlohmann-json3-dev libfmt-dev libcli11-dev zlib1g-dev libpng-dev libjpeg-dev libwebp-dev
  libcsv-dev libssl-dev libgtest-dev libgmock-dev libboost-context-dev libgloo-dev)
tsan_packages=(clang-14 libclang-rt-14-dev libomp-14-dev)
onednn=2023.2.0       # version of the wheels: oneDNN 3.2 with GCC's OpenMP; Debian has 2.6
cudnn_frontend=1.18.0 # headers only; 1.19 and later require linking NVRTC

refuse() {
  echo "${0##*/}: $*" >&2
  exit 2
}

# Installs the packages that are missing.
need_packages() {
  command -v dpkg-query >/dev/null || refuse "this is not Debian; install the equivalents of: $*"
  local missing=() package as_root=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local lack="missing packages: ${missing[*]}; as root:  apt-get install ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null && sudo -v 2>/dev/null || refuse "$lack"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
  echo "== installing ${#missing[@]} packages: ${missing[*]}"
  local log
  log=$(mktemp)
  { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    refuse "$lack"
  }
}

pip=(.deps/bin/pip install --no-deps --retries 1 --timeout 20)

install_wheels() {
  echo "== installing $* into .deps"
  [[ -e .deps/bin/pip ]] || python3 -m venv .deps && "${pip[@]}" -q "$@"
}

# need_wheels [OFF]: installs into .deps what it lacks: oneDNN 3 and, unless OFF and if there is a
# CUDA toolkit, cuDNN's frontend.
need_wheels() {
  local wheels=("onednn-cpu-gomp==$onednn" "onednn-devel-cpu-gomp==$onednn")
  [[ -e .deps/lib/libdnnl.so.3 && -e .deps/lib/cmake/dnnl/dnnl-config.cmake ]] ||
    install_wheels "${wheels[@]}" ||
    refuse "missing oneDNN 3, and PyPI did not give it; with a network:  ${pip[*]} ${wheels[*]}"
  local toolkit=${CUDA_HOME:-/usr/local/cuda}
  [[ ${1-} != OFF ]] || return 0
  [[ -e $toolkit/bin/nvcc && -e $toolkit/include/cudnn.h ]] || return 0
  compgen -G '.deps/lib/python3*/site-packages/include/cudnn_frontend.h' >/dev/null ||
    install_wheels "nvidia-cudnn-frontend==$cudnn_frontend" ||
    echo "${0##*/}: no cuDNN frontend from PyPI: convolutions on a GPU run on plain kernels"
}

# wants_cuda [--cuda]: true if the CUDA half is to be built: on request, if this machine has a GPU
# driver, or if an earlier build included it.
wants_cuda() {
  [[ ${1-} == --cuda || -e /proc/driver/nvidia ]] ||
    grep -qsE '^BELLOWS_CUDA:STRING=(AUTO|ON)' build/CMakeCache.txt
}

# Shows how far ninja is in place of its lines: on a terminal in one line, else every 20 seconds.
# Passes all other lines on.
show_progress() {
  local begin=$SECONDS next=0 line
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      local done=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
      ((done)) || continue
      local left=$(((SECONDS - begin) * (total - done) / done))
      local text="[$done/$total]"
      ((SECONDS < begin + 10)) || text+=" about $((left / 60)) min $((left % 60)) s left"
      if [[ -t 1 ]]; then
        printf '\r\033[K%s' "$text"
      elif ((SECONDS >= next)); then
        echo "$text"
        next=$((SECONDS + 20))
      fi
    else
      [[ ! -t 1 ]] || printf '\r\033[K'
      printf '%s\n' "$line"
    fi
  done
  [[ ! -t 1 ]] || printf '\r\033[K'
}

# build <preset> [cmake arguments] [-- targets]
build() {
  local preset=$1 arguments=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  (($#)) && shift
  echo "== building: $preset ${*:-all}, $SECONDS s after the start"
  cmake --preset "$preset" "${arguments[@]}" >/dev/null
  cmake --build --preset "$preset" -j "$(nproc)" ${*:+--target "$@"} | show_progress
}
