#!/bin/sh
# Prints a C++ source with the places of all trace counters, a line each: "amp.low_ops
# autograd/amp.h:59". `trainer explain` shows them. Run it in the root of the sources.
echo 'namespace bellows {'
echo 'extern const char* const kCounterPlaces;'
echo 'const char* const kCounterPlaces = R"text('
find core autograd data ops optim dist models trainer -name '*.h' -o -name '*.cpp' -o \
  -name '*.cu' -o -name '*.cuh' | sort | xargs awk '
  /^ *\/\// { next }
  {
    while (match($0, /count<"[^"]+"|counter\("[^"]+"\)\.raise_to/)) {
      split(substr($0, RSTART, RLENGTH), part, "\"")
      print part[2], FILENAME ":" FNR
      $0 = substr($0, RSTART + RLENGTH)
    }
  }'
echo ')text";'
echo '}  // namespace bellows'
