// Sets how long libgomp's threads spin at a barrier before they sleep: 10,000 rounds, some tens of
// microseconds, in place of 300,000, some milliseconds. Where threads have a core each, waits are
// shorter than either; where they share cores with other work, a spinning thread takes the time
// that the thread it waits for would need.
//
// libgomp reads its environment in its own initialiser, before main(). So this file is a shared
// library of its own, which every program names last: the loader initialises libraries that do not
// depend on each other from the last one to the first. A program's OMP_DISPLAY_ENV=verbose shows
// what libgomp has read. GOMP_SPINCOUNT or OMP_WAIT_POLICY of the user prevails.
#include <cstdlib>

[[gnu::constructor]] static void bound_spinning() {
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "10000", 0);
}
