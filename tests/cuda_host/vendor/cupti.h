// Stand-in for CUPTI: records of what the streams have run, with the times at which they ran.
#pragma once
#include <cstdint>
#include <string>

namespace cuda_host {

// Guarded by the runtime's mutex.
struct Cupti {
  int64_t calls = 0;     // of its functions
  int enabled = 0;       // kinds that are enabled now
  bool missing = false;  // no such library
  bool refuses = false;  // another profiler is there
};
inline Cupti cupti_library;

}  // namespace cuda_host
