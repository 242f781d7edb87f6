#!/usr/bin/env bash
# Installs what is missing, builds the trainer, and trains LeNet on digits that it draws itself.
# Arguments are passed to the trainer:
#   tools/train.sh train.epochs=2 optimizer.lr=0.02
#   tools/train.sh --config configs/mlp_mnist.yaml data.root=datasets/mnist
source "$(dirname "$0")/setup.sh"
need_packages "${build_packages[@]}"
need_wheels
build release -- trainer

config=(--config configs/lenet.yaml)
[[ " $* " == *" "@(--config|-c)[\ =]* ]] && config=()
exec build/trainer "${config[@]}" "$@"
