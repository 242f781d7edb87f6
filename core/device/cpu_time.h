// CPU time of the process, and time that the threads of its pool waited for a core.
#pragma once
#include <cstdint>

namespace bellows {

// Starts watching the pool, which has `threads` threads. Call it from the compute thread, after
// omp_set_num_threads.
void watch_pool(int threads);

// Returns the number of threads in the pool.
int pool_threads();

// CPU time of the process, and time in which threads of the pool were ready but had no core, in ns
// since watch_pool(). waited_ns is 0 if the kernel has no schedstat. Compute thread only.
struct CpuTime {
  int64_t used_ns = 0, waited_ns = 0;
};
CpuTime cpu_time();

}  // namespace bellows
