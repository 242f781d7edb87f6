#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs the CPU suite (about five minutes on two
# cores). --all adds the sanitizers: ASan and UBSan for everything, TSan for multithreaded code.
# TSan uses clang and its OpenMP, whose barriers it understands, so it builds without oneDNN.
source "$(dirname "$0")/setup.sh"
[[ $# == 0 || $* == --all ]] || refuse "unknown argument $*; it takes --all or nothing"

# Parallel tests have more threads than there are cores, so waiting threads must not spin.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

under=() # command prefix of the tests
run_tests() { # <build folder> [ctest arguments]
  echo "== testing: $1, $SECONDS s after the start"
  "${under[@]}" ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$(nproc)" "${@:2}"
}

need_packages "${build_packages[@]}"
need_wheels
build release -DBELLOWS_CUDA=AUTO
run_tests build
[[ ${1-} == --all ]] || exit 0

# Some tests provoke out-of-memory errors; the sanitizer must not abort on them.
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1
build debug -- all_tests
run_tests build-debug

need_packages "${tsan_packages[@]}"
build tsan -- {core,data,dist,cuda_host}_test \
  {core,autograd,data,ops,optim,trainer,toggles,bench}_on_cuda_host
# TSan's shadow memory does not support all addresses that randomization may choose.
setarch -R true 2>/dev/null && under=(setarch -R)
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:allocator_may_return_null=1
run_tests build-tsan -L '^(core|data|dist|cuda_host)$'
echo "== done after $SECONDS s"
