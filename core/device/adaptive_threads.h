// Uses fewer threads of the pool while other work on the machine keeps them waiting for a core.
//
// A parallel region ends when its last thread does. A thread without a core waits for a slice of
// the scheduler, some milliseconds, and holds up all others for that long, at each barrier.
#pragma once
#include <cstdint>

namespace bellows {

// on: parallel_for uses fewer threads. Its results do not depend on their number, so equal runs
// stay equal under any load. all: the libraries' kernels use fewer too.
enum class Adaptive { off, on, all };

// Watches the pool, which has `threads` threads, and uses all of them. Call from the compute
// thread, after omp_set_num_threads.
void watch_pool(int threads, Adaptive adaptive);

// Number of threads of the pool, in use or not.
int pool_threads();

// Chooses how many threads to use from now on. Call between two steps, from the compute thread. It
// reads a clock, and every 20 ms how long the threads have waited; counted: cpu.wait_readings.
// cpu.fewer_threads counts how often it took threads away, cpu.library_threads how often that
// changed the number of the libraries' threads.
void adapt_threads();

// CPU time of the process, and the time for which threads of the pool were ready to run and had no
// core. In ns, since watch_pool(); waited_ns is 0 where the kernel does not say (no schedstat).
struct CpuTime {
  int64_t used_ns = 0, waited_ns = 0;
};
CpuTime cpu_time();

// The rule: fewer threads when those in use wait for more than a fifth of the time, all of them
// again after a pause. Pauses double, up to 64 windows or 2 s, while threads still have to wait.
class ThreadGovernor {
 public:
  explicit ThreadGovernor(int threads) : all_(threads), in_use_(threads) {}
  // The number of threads for the next window. `waited`: share of the last window, of window_ns up
  // to now_ns, in which a thread in use was ready and had no core, from 0 to 1; their mean.
  int next(int64_t now_ns, int64_t window_ns, double waited);

 private:
  int all_, in_use_;
  int64_t pause_ns_ = 0, retry_at_ns_ = 0;
};

}  // namespace bellows
