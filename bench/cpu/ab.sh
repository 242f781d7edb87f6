#!/bin/bash
# Writes the reports in docs/measurements/ab, one per toggle that has an effect on this machine.
# Some compare with a plain run: LeNet without other toggles, ResNet-18 with vendor kernels and the
# caching allocator. The others run the command that `trainer explain` prints. Those of
# bucketed_allreduce and overlap_allreduce need a slow link: bench/ddp/throttled.py --ab.
#   bench/cpu/ab.sh [--budget 40s] [key=value for all runs]
cd "$(dirname "$0")/../.."
mkdir -p docs/measurements/ab

declare -A plain
for toggle in num_workers vendor_kernels batch_lanes fused_optimizer caching_allocator \
  fused_bias_act kernel_autotune; do
  plain[$toggle]="--config configs/plain/lenet.yaml --toggle $toggle"
done
for toggle in amp channels_last fused_bn_act fused_bn_add_act fused_add_act recompute; do
  plain[$toggle]="--config configs/plain/resnet18.yaml --toggle $toggle --steps 5 --warmup 10
    toggles.vendor_kernels=on toggles.caching_allocator=on"
done
plain[amp]+=" --value bf16,fp16"
plain[kernel_autotune]+=" --value benchmark"

for file in toggles/*/*.cpp; do
  toggle=$(basename "$file" .cpp)
  card=$(build/trainer explain "$toggle")
  printed=$(sed -n 's/^  measure: *trainer //p' <<<"$card")
  if [[ ${plain[$toggle]-} ]]; then
    command="ab ${plain[$toggle]//$'\n'/ }"
  elif [[ $toggle == bucketed_allreduce || $toggle == overlap_allreduce ]]; then
    continue
  elif [[ ! $printed || $card == *$'\n  here:'* && $printed != launch* ]]; then
    continue # nothing to measure here
  else
    command=$printed
  fi
  echo "== $toggle"
  eval "build/trainer $command --report docs/measurements/ab/$toggle.md $*" ||
    echo "ab.sh: $toggle ended with $?" >&2
done
