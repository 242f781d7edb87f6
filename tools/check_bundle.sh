#!/usr/bin/env bash
# Checks that a bundle is self-contained:  tools/check_bundle.sh FOLDER
# Checks the libraries that its programs need. Then copies it, hides the checkout that it was built
# from, trains for two steps and runs tests.
set -euo pipefail
folder=$(cd "$1" && pwd)

# Libraries that need not be in the bundle: C++ runtime, CUDA, cuDNN.
system='^(ld-linux-x86-64\.so\.2|lib(c|m|dl|rt|pthread|resolv)\.so\.[0-9]'
system+='|libstdc\+\+\.so\.6|libgcc_s\.so\.1)$'
cuda='^lib(cudart|cublas|cublasLt|cudnn[a-z_]*|nvrtc|nvJitLink|cuda)\.so\.[0-9]+$'

tree=$(cd "$(dirname "$0")/.." && pwd -P)
faults=0
fault() {
  echo "check_bundle: $*" >&2
  faults=$((faults + 1))
}

moved=$(mktemp -d)
trap 'rm -rf -- "$moved"' EXIT
cp -rl -- "$folder" "$moved/elsewhere" 2>/dev/null || cp -r -- "$folder" "$moved/elsewhere"
here=$moved/elsewhere

for file in "$here"/bin/* "$here"/lib/*; do
  name=${file#"$here"/}
  asks=$(readelf -d "$file")
  for library in $(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$asks"); do
    [[ -e $here/lib/$library || $library =~ $system || $library =~ $cuda ]] ||
      fault "$name needs $library, which is not in lib/"
  done
  path=$(sed -n 's/.*(RU\?N\?PATH).*\[\(.*\)\]/\1/p' <<<"$asks")
  # An empty or relative entry would search the folder in which the program is started.
  [[ :${path:-/}: =~ ^(:(/|\$ORIGIN)[^:]*)+:$ ]] || fault "$name looks for libraries in '$path'"
  [[ $name == lib/* ]] && continue
  [[ $path == '$ORIGIN/../lib' ]] || fault "$name looks for libraries in '$path'"
  while read -r library _ found _; do
    [[ -e $here/lib/$library && $found != "$here/lib/"* && $found != "$here/bin/../lib/"* ]] &&
      fault "$name takes $library from $found"
    [[ $found == not && ! $library =~ $cuda ]] && fault "$name does not find $library"
  done < <(env -u LD_LIBRARY_PATH ldd "$file")
done
((faults == 0)) || exit 1

# Hides the checkout with an empty mount, because programs contain its path. Needs root, or a user
# namespace.
for namespace in --mount "--user --map-root-user --mount"; do
  away=(unshare $namespace bash -c 'mount -t tmpfs none "$0" && exec "$@"' "$tree")
  "${away[@]}" true 2>/dev/null && break
  away=()
done
((${#away[@]})) || echo "check_bundle: may not hide $tree here: what tests read is not proved" >&2
cd "$moved"
moved_run() { "${away[@]}" "$here/run" "$@" </dev/null >"$moved/out" 2>&1; }

moved_run trainer --config "$here/configs/lenet.yaml" --run-dir "$moved/run" device=cpu \
  data.train_size=64 data.test_size=16 data.batch_size=32 train.epochs=1 ||
  fault "the moved trainer does not train: $(tail -n 1 "$moved/out")"
# Tests that read files of the bundle: one suite run by gpu_check.sh, and the tests of longer suites
# that read configs, tables or headers, or load a fake driver.
moved_run "$here/tools/gpu_check.sh" "$moved/report" --allow-cpu autograd_test ||
  fault "the moved tests do not pass: $(tail -n 1 "$moved/out")"
while read -r suite tests; do
  [[ -e $here/bin/$suite ]] || continue # this build lacks the suite's library
  moved_run "$suite" --gtest_filter="$tests" && grep -q '^\[ *\(OK\|SKIPPED\) ' "$moved/out" ||
    fault "the moved $suite does not pass: $(grep -m 1 FAILED "$moved/out")"
done <<'END'
models_test Oracle*:ResNetOracleTest.*
trainer_test Configs.*:Nvml.*:Program.Doctor*
vendor_test *EveryConvolutionOfLeNetAndTheResNets
nvrtc_test *KeysItsCache*
END
((faults == 0)) || exit 1
echo "check_bundle: $1 brings all that it needs"
