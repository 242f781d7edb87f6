#!/usr/bin/env bash
# The second command: installs what is missing, builds everything, and runs the CPU suite (some five
# minutes on two cores). --all adds the sanitizers: ASan and UBSan for everything, TSan for the code
# that has threads (clang and its OpenMP, whose barriers TSan understands, so without oneDNN).
source "$(dirname "$0")/setup.sh"
[[ $# == 0 || $* == --all ]] || refuse "unknown argument $*; it takes --all or nothing"

# Tests that run side by side have more threads than there are cores: waiting must not burn them.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

under=() # what the tests run under
run_tests() { # <build folder> [ctest arguments]
  echo "== testing: $1, $SECONDS s after the start"
  "${under[@]}" ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$(nproc)" "${@:2}"
}

need_packages "${build_packages[@]}"
need_wheels
build release -DBELLOWS_CUDA=AUTO
run_tests build
[[ ${1-} == --all ]] || exit 0

# Out of memory is an answer that tests ask for, not a reason to abort.
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1
build debug -- all_tests
run_tests build-debug

need_packages "${tsan_packages[@]}"
build tsan -- {core,data,dist,cuda_host}_test \
  {core,autograd,data,ops,optim,trainer,toggles,bench}_on_cuda_host
# TSan's shadow memory does not fit every address that a hardened kernel may pick.
setarch -R true 2>/dev/null && under=(setarch -R)
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:allocator_may_return_null=1
run_tests build-tsan -L '^(core|data|dist|cuda_host)$'
echo "== done after $SECONDS s"
