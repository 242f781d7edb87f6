#!/usr/bin/env bash
# Tests and measures a bundle on the machine that it lies on:
#   tools/gpu_check.sh OUT [STEP...]     the named steps, or all that OUT has not seen pass
#   tools/gpu_check.sh --list
#   tools/gpu_check.sh --merge OUT REPORT.json...
# OUT gets report.json, report.md and log.txt, renewed after each step, so a call may be cut short
# and another may go on.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/../run" python3 -B "$here/gpu_check.py" "$@"
