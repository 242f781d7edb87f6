#!/usr/bin/env bash
# Installs what is missing, builds the program and the CPU suites, and runs them. --cuda adds the
# CUDA halves, their stand-in for a GPU and the checks of machine code; so does a GPU driver.
# --sanitizers also runs the suites of the engine, the data and the ranks with ASan and UBSan, and
# those that start threads with TSan. --all runs every suite with sanitizers: two hours.
# TSan uses clang and its OpenMP, whose barriers it understands, so it builds without oneDNN.
source "$(dirname "$0")/setup.sh"
cuda=OFF
wants_cuda "${1-}" && cuda=AUTO
[[ ${1-} != --cuda ]] || shift
case $* in
'' | --sanitizers | --all) ;;
*) refuse "unknown argument $*; it takes [--cuda] and --sanitizers, --all or nothing" ;;
esac

# Parallel tests have more threads than there are cores, so waiting threads must not spin.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

under=() # command prefix of the tests
run_tests() { # <build folder> [ctest arguments]
  echo "== testing: $1, $SECONDS s after the start"
  # Two slots per core, which tests that compute take, and one more (tests/CMakeLists.txt).
  local slots=$((2 * $(nproc) + 1))
  "${under[@]}" ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$slots" "${@:2}" &&
    return
  echo "== what failed, once more:"
  grep -C 10 -E ': Failure$|^Test (Failed|timeout)|Sanitizer:' \
    "$1/Testing/Temporary/LastTest.log" | tail -n 150
  exit 1
}

need_packages "${build_packages[@]}"
(need_packages libopenblas0-pthread) || echo "test.sh: tests of cpu.blas=openblas are skipped"
need_wheels "$cuda"
build release -DBELLOWS_CUDA="$cuda"
run_tests build
[[ ${1-} ]] || exit 0

if [[ $1 == --all ]]; then
  memory_targets=(all_tests)
  memory_tests=()
  thread_targets=({core,data,dist}_test)
  [[ $cuda == OFF ]] || thread_targets+=(cuda_host_test
    {core,autograd,data,ops,optim,dist,trainer,labs,toggles}_on_cuda_host)
  thread_tests=(-L '^(core|data|dist|cuda_host)$')
else
  memory_targets=({core,autograd,data,ops,optim,dist,fault}_test)
  memory_tests=(-R '^(core|autograd|data|ops|optim|dist|fault)_test')
  thread_targets=({core,data,dist}_test)
  [[ $cuda == OFF ]] || thread_targets+=(cuda_host_test {core,data,dist}_on_cuda_host)
  thread_tests=(-R '^(core|data|dist|cuda_host|tsan_finds)_')
fi
# Some tests provoke out-of-memory errors; the sanitizer must not abort on them.
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1
build debug -DBELLOWS_CUDA="$cuda" -- "${memory_targets[@]}"
run_tests build-debug "${memory_tests[@]}"

need_packages "${tsan_packages[@]}"
build tsan -DBELLOWS_CUDA="$cuda" -- "${thread_targets[@]}"
# TSan's shadow memory does not support all addresses that randomization may choose.
setarch -R true 2>/dev/null && under=(setarch -R)
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:allocator_may_return_null=1
run_tests build-tsan "${thread_tests[@]}"
echo "== done after $SECONDS s"
