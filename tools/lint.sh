#!/usr/bin/env bash
# Checks the C++ and CUDA sources: clang-format for all files, clang-tidy for those that differ from
# origin/main, or from main.
#   tools/lint.sh            check
#   tools/lint.sh --all      clang-tidy for every file: half an hour
#   tools/lint.sh --format   check the format only
#   tools/lint.sh --fix      rewrite the files in the right format, nothing else
source "$(dirname "$0")/setup.sh"
[[ $# == 0 || $* == --all || $* == --format || $* == --fix ]] ||
  refuse "unknown argument $*; it takes --all, --format or --fix"
need_packages clang-format-14

mapfile -t files < <(git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' '*.c')
if [[ ${1-} == --fix ]]; then
  exec clang-format-14 -i "${files[@]}"
fi
echo "== format: ${#files[@]} files"
clang-format-14 --dry-run --Werror "${files[@]}" ||
  refuse "the format differs; tools/lint.sh --fix mends it"
[[ ${1-} != --format ]] || exit 0

need_packages clang-tidy-14
[[ -e build/compile_commands.json ]] || refuse "no build; first:  tools/train.sh"
if [[ ${1-} == --all ]]; then
  changed=("${files[@]}")
else
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main)
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base")
fi
tidied=()
for file in "${changed[@]}"; do
  [[ $file == *.cpp ]] && grep -qF "/$file\"" build/compile_commands.json && tidied+=("$file")
done
echo "== tidy: ${#tidied[@]} files"
((${#tidied[@]})) || exit 0
# clang cannot read the headers that GCC precompiled. clang 14 does not know all of GCC's warnings
# and lacks std::source_location.
mkdir -p build/lint
sed 's/-Winvalid-pch -include [^ ]*//' build/compile_commands.json >build/lint/compile_commands.json
printf '%s\0' "${tidied[@]}" | xargs -0 -n 4 -P "$(nproc)" clang-tidy-14 -p build/lint --quiet \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-isystem"$PWD/tools/clang14"
