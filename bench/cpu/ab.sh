#!/bin/sh
# The reports of docs/measurements/ab: toggles on LeNet, each against its absence in the plain run.
#   bench/cpu/ab.sh [options of `trainer ab` and key=value, for all of them]
set -e
cd "$(dirname "$0")/../.."
mkdir -p docs/measurements/ab
for toggle in num_workers vendor_kernels batch_lanes fused_optimizer caching_allocator; do
  build/trainer ab --config configs/plain/lenet.yaml --toggle "$toggle" \
    --report "docs/measurements/ab/$toggle.md" "$@"
done
