// The process's share of the machine: how many threads its OpenMP pool has, and how its other
// threads are named and scheduled.
#pragma once
#include <filesystem>
#include <string>
#include "core/visitor.h"

namespace bellows {

struct ThreadOptions {
  int threads = 0;      // of the pool; 0: OMP_NUM_THREADS, or one for each allowed core
  bool budget = false;  // at most allowed cores / local ranks
};
void visit(Visitor& v, ThreadOptions& o);

// Sizes the pool; from the compute thread, before its first parallel region. `local_ranks` are the
// processes of this run on this machine. Counted: cpu.budget_set, cpu.peak_threads.
void apply(const ThreadOptions& options, int local_ranks = 1);

// Cores that this process may use: those in its affinity mask, or fewer under a CPU quota.
int allowed_cores();

// Whole cores in the CPU quota of the process's cgroup (version 1 or 2) or of one above it; 0 if
// there is none. The arguments are for tests.
int quota_cores(const std::filesystem::path& cgroups = "/sys/fs/cgroup",
                const std::filesystem::path& membership = "/proc/self/cgroup");

void name_thread(const std::string& name);  // this thread, for top and debuggers; 15 characters

// From now on this thread gets only time that no other wants (SCHED_IDLE, or the lowest priority).
// False if the system permits neither.
bool enter_background();

}  // namespace bellows
