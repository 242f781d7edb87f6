#!/usr/bin/env bash
# Tests and measures a bundle on this machine:
#   tools/gpu_check.sh OUT [STEP...]     these steps or groups, or all that have not passed in OUT
#   tools/gpu_check.sh --list
#   tools/gpu_check.sh --merge OUT REPORT.json...
# Writes report.json, report.md and log.txt to OUT after each step, and what a comparison has so far
# to OUT/now, so an interrupted run can be continued.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/../run" python3 -B "$here/gpu_check.py" "$@"
