// Limits how long libgomp's threads spin at a barrier before they sleep: 10,000 rounds (tens of
// microseconds) instead of 300,000 (milliseconds). If each thread has its own core, waits are
// shorter than either. If threads share cores with other work, a spinning thread takes the time
// that the thread it waits for would need.
//
// libgomp reads its environment in its own initializer, before main(). Therefore this file is a
// shared library, which every program links last: the loader initializes libraries that do not
// depend on each other from the last to the first. A program started with OMP_DISPLAY_ENV=verbose
// prints what libgomp has read. GOMP_SPINCOUNT or OMP_WAIT_POLICY of the user takes precedence.
#include <cstdlib>

[[gnu::constructor]] static void bound_spinning() {
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "10000", 0);
}
