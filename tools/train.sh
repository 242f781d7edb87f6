#!/usr/bin/env bash
# Installs what is missing, builds the trainer, and trains LeNet on digits that it draws itself.
# Arguments are passed to the trainer:
#   tools/train.sh train.epochs=2 optimizer.lr=0.02
#   tools/train.sh --config configs/mlp_mnist.yaml data.root=datasets/mnist
# The CUDA half is built if this machine has a GPU driver, if an earlier build included it, or if
# the first argument is --cuda.
source "$(dirname "$0")/setup.sh"
cuda=OFF
wants_cuda "${1-}" && cuda=AUTO
[[ ${1-} != --cuda ]] || shift
need_packages "${build_packages[@]}"
need_wheels "$cuda"
build release -DBELLOWS_CUDA="$cuda" -- trainer

config=(--config configs/lenet.yaml)
[[ " $* " == *" "@(--config|-c)[\ =]* ]] && config=()
exec build/trainer "${config[@]}" "$@"
