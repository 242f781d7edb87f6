#!/usr/bin/env bash
# Runs a program of this bundle with the CUDA libraries that pip installed for python3, if any:
#   ./run trainer --config configs/lenet.yaml device=cuda
# Any other command runs with the same libraries:  ./run python3 peers/compare.py --help
export BELLOWS_BUNDLE BELLOWS_DATA
BELLOWS_BUNDLE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BELLOWS_DATA=${BELLOWS_DATA:-$BELLOWS_BUNDLE/data} # for tests that need a real data set
libraries=$(python3 - <<'END'
import glob
import importlib.util

spec = importlib.util.find_spec("nvidia")
places = spec.submodule_search_locations if spec else []
print(":".join(folder for place in places for folder in sorted(glob.glob(f"{place}/*/lib"))))
END
)
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:} # an empty entry would be the current folder
export PATH=$BELLOWS_BUNDLE/bin:$PATH
[[ -f $BELLOWS_BUNDLE/bin/${1-} ]] && set -- "$BELLOWS_BUNDLE/bin/$1" "${@:2}"
exec "$@"
