#!/usr/bin/env bash
# Records a training run with Nsight Systems, whose time axis shows threads, ranges of the trainer
# and kernels of the GPU (S1:64). Writes NAME.nsys-rep, after the name of the config. Options are
# passed to the trainer; unless one of them is profile.window, updates 20 to 29 are recorded:
#   tools/nsys.sh --config configs/lenet.yaml
#   tools/nsys.sh --config configs/lenet.yaml profile.window=[5,8]
source "$(dirname "$0")/setup.sh"
lacks=()
build/trainer --version 2>/dev/null | grep '^  cuda [0-9]' >/dev/null ||
  lacks+=("a build with CUDA (tools/train.sh --cuda)")
command -v nsys >/dev/null ||
  lacks+=("nsys (the package nsight-systems-cli of developer.nvidia.com/nsight-systems)")
((${#lacks[@]} == 0)) ||
  refuse "missing: $(printf '%s; ' "${lacks[@]}")without them, use  build/trainer profile"

name=trainer
[[ " $* " =~ \ (--config|-c)[\ =]([^ ]+) ]] && name=$(basename "${BASH_REMATCH[2]}" .yaml)
[[ " $*" == *" profile.window="* ]] || set -- "$@" 'profile.window=[20,30]'
exec nsys profile --stats=true -t cuda,nvtx,osrt,cudnn,cublas -c cudaProfilerApi -f true \
  -o "$name.nsys-rep" build/trainer "$@"
