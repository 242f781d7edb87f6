// Uses fewer threads of the pool while other work on the machine keeps them waiting for a core.
//
// A parallel region ends when its last thread does. A thread without a core waits for a time slice
// of the scheduler (some milliseconds) and delays all others by that much, at each barrier.
#pragma once
#include <cstdint>

namespace bellows {

// on: parallel_for uses fewer threads. Its results do not depend on their number, so equal runs
// stay equal under any load. all: kernels of libraries use fewer threads too.
enum class Adaptive { off, on, all };

// Starts watching the pool, which has `threads` threads, and uses all of them. Call it from the
// compute thread, after omp_set_num_threads.
void watch_pool(int threads, Adaptive adaptive);

// Returns the number of threads in the pool, in use or not.
int pool_threads();

// Chooses how many threads to use from now on. Call it between two steps, from the compute thread.
// Reads a clock, and every 20 ms how long the threads have waited. Counters: cpu.wait_readings
// (such readings), cpu.fewer_threads (reductions), cpu.library_threads (reductions that also apply
// to libraries).
void adapt_threads();

// CPU time of the process, and time in which threads of the pool were ready but had no core, in ns
// since watch_pool(). waited_ns is 0 if the kernel has no schedstat. Compute thread only.
struct CpuTime {
  int64_t used_ns = 0, waited_ns = 0;
};
CpuTime cpu_time();

// Rule: use fewer threads if those in use wait for more than a fifth of the time, and all of them
// again after a pause. While threads still wait, pauses double, up to max(64 windows, 2 s).
class ThreadGovernor {
 public:
  explicit ThreadGovernor(int threads) : all_(threads), in_use_(threads) {}
  // Returns the number of threads for the next window. The last window took window_ns and ended at
  // now_ns. `waited` is the share of it, from 0 to 1, in which a thread in use was ready but had no
  // core: the mean over the threads.
  int next(int64_t now_ns, int64_t window_ns, double waited);

 private:
  int all_, in_use_;
  int64_t pause_ns_ = 0, retry_at_ns_ = 0;
};

}  // namespace bellows
