// The process's share of the machine: how many threads its OpenMP pool has, and how its other
// threads are named and scheduled.
#pragma once
#include <filesystem>
#include <string>
#include "core/config/visitor.h"
#include "core/device/adaptive_threads.h"
#include "core/device/topology.h"

namespace bellows {

struct ThreadOptions {
  int threads = 0;      // of the pool; 0: OMP_NUM_THREADS, or one for each allowed core
  bool budget = false;  // at most allowed cores / local ranks
  Pinning pinning = Pinning::off;
  std::string cores = {};   // of Pinning::list: "0-3,8"; empty: all allowed ones
  bool numa_local = false;  // threads and memory on one node
  Adaptive adaptive = Adaptive::off;
};
void visit(Visitor& v, ThreadOptions& o);

// Sizes and places the pool; from the compute thread, before its first parallel region.
// `local_ranks` are the processes of this run on this machine, and `local_rank` is which of them
// this is. Returns a warning if the system lets the process start fewer threads than that (the pool
// is then smaller), else "". Counted: cpu.budget_set, cpu.peak_threads, and what
// core/device/affinity.h says.
std::string apply(const ThreadOptions& options, int local_ranks = 1, int local_rank = 0);

// Cores that this process may use: those of process_cores(), or fewer under a CPU quota.
int allowed_cores();

// Whole cores in the CPU quota of the process's cgroup (version 1 or 2) or of one above it; 0 if
// there is none. The arguments are for tests.
int quota_cores(const std::filesystem::path& cgroups = "/sys/fs/cgroup",
                const std::filesystem::path& membership = "/proc/self/cgroup");

// For a thread beside the pool, first of all: a name for top and debuggers (15 characters), and
// the process's cores in place of the one that its maker may be pinned to.
void name_thread(const std::string& name);

// From now on this thread gets only time that no other wants (SCHED_IDLE, or the lowest priority).
// False if the system permits neither.
bool enter_background();

}  // namespace bellows
