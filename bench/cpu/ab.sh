#!/bin/sh
# Writes the reports in docs/measurements/ab, one per toggle. Each compares a run with the toggle to
# one without it: on LeNet with no other toggles, on ResNet-18 with vendor kernels and the caching
# allocator.
#   bench/cpu/ab.sh [--budget 40s] [key=value for all runs]
set -e
cd "$(dirname "$0")/../.."
mkdir -p docs/measurements/ab

compare() { # <config> <toggle> [arguments]
  config=$1 toggle=$2
  shift 2
  build/trainer ab --config "configs/plain/$config.yaml" --toggle "$toggle" \
    --report "docs/measurements/ab/$toggle.md" "$@"
}

for toggle in num_workers vendor_kernels batch_lanes fused_optimizer caching_allocator \
  fused_bias_act; do
  compare lenet "$toggle" "$@"
done
compare resnet18 amp --value bf16,fp16 --steps 5 --warmup 10 toggles.vendor_kernels=on \
  toggles.caching_allocator=on "$@"
for toggle in channels_last fused_bn_act fused_bn_add_act fused_add_act recompute; do
  compare resnet18 "$toggle" --steps 5 --warmup 10 toggles.vendor_kernels=on \
    toggles.caching_allocator=on "$@"
done
