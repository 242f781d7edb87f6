// CPU resources of the process: size and placement of its pool (the workers, and the team that
// OpenMP keeps for libraries), and names and scheduling of its other threads.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include "core/device/topology.h"

namespace bellows {

class Visitor;

struct ThreadOptions {
  int threads = 0;      // in the pool; 0: OMP_NUM_THREADS, or one per allowed core
  bool budget = false;  // at most allowed cores / local ranks
  Pinning pinning = Pinning::off;
  std::string cores = {};   // for Pinning::list: "0-3,8"; empty: all allowed cores
  bool numa_local = false;  // threads and memory on one NUMA node
};
void visit(Visitor& v, ThreadOptions& o);

// Sizes and places the pool. Call it from the compute thread, before its first parallel region.
// This process is `local_rank` of `local_ranks` processes of the run on this machine. Returns a
// warning if the system cannot start all threads (the pool is then smaller), else "". Counters:
// cpu.threads_withheld, cpu.peak_threads, and those of core/device/topology.h. Throws Error, exit
// 2, for invalid options.
std::string apply(const ThreadOptions& options, int local_ranks = 1, int local_rank = 0);

// Returns how many cores this process may use: process_cores(), or fewer under a CPU quota.
int allowed_cores();

// Returns the whole cores in the CPU quota of the process's cgroup (version 1 or 2), the smallest
// among it and its parents; 0 if there is none. The arguments are for tests.
int quota_cores(const std::filesystem::path& cgroups = "/sys/fs/cgroup",
                const std::filesystem::path& membership = "/proc/self/cgroup");

// Returns the number of threads in the pool.
int pool_threads();

// CPU time of the process, and time in which threads of the pool were ready but had no core, in ns
// since apply(). waited_ns is 0 if the kernel has no schedstat. Compute thread only.
struct CpuTime {
  int64_t used_ns = 0, waited_ns = 0;
};
CpuTime cpu_time();

// Names the calling thread for top and debuggers (up to 15 characters) and undoes the pinning that
// it inherited from its creator. Call it first in each thread outside the pool.
void name_thread(const std::string& name);

// Starts a thread with that name, without the pinning of its creator: the one way to start a thread
// outside the pool. Throws Error, exit 6, if the system starts no more threads.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace bellows
