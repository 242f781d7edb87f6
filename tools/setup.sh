# What a bare Debian 12 lacks, for the scripts that source this: packages, oneDNN 3, configure and
# build. Each step looks first, so a second run costs nothing. Exit 2: what is missing, in one line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(g++ cmake ninja-build ccache python3-venv libeigen3-dev libyaml-cpp-dev
  nlohmann-json3-dev libfmt-dev libcli11-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev
  libgtest-dev libgmock-dev)
tsan_packages=(clang-14 libclang-rt-14-dev libomp-14-dev)
onednn=2023.2.0 # of the wheels: oneDNN 3.2 for CPUs, on GCC's OpenMP; Debian's own is 2.6

refuse() {
  echo "${0##*/}: $*" >&2
  exit 2
}

# Installs those of the packages that are not there.
need_packages() {
  command -v dpkg-query >/dev/null || refuse "this is no Debian; install what stands for: $*"
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
  echo "== installing ${missing[*]}"
  "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
    refuse "$lack"
}

# oneDNN 3 into .deps, unless somebody has put it there.
need_onednn() {
  [[ -e .deps/lib/libdnnl.so.3 && -e .deps/lib/cmake/dnnl/dnnl-config.cmake ]] && return
  local wheels=("onednn-cpu-gomp==$onednn" "onednn-devel-cpu-gomp==$onednn")
  local pip=(.deps/bin/pip install --no-deps --retries 1 --timeout 20 "${wheels[@]}")
  echo "== installing ${wheels[*]} into .deps"
  python3 -m venv .deps && "${pip[@]}" -q ||
    refuse "missing oneDNN 3, and PyPI did not give it; with a network:  ${pip[*]}"
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
  echo "== building: $preset ${*:-all}"
  cmake --preset "$preset" "${arguments[@]}" >/dev/null
  cmake --build --preset "$preset" -j "$(nproc)" ${*:+--target "$@"}
}
