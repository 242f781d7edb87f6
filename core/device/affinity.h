// On which cores the process's threads run, and in which memory node its pages lie.
#pragma once
#include <sched.h>
#include <functional>
#include "core/device/topology.h"

namespace bellows {

// The cores that the process may use: those it was started with, or of these its node's.
std::vector<int> process_cores();

// Those in the set that `ask` fills as sched_getaffinity does, and refuses (EINVAL) while it is
// smaller than the system's own, of which the C library's 1024 are not all. {0}: it does not tell.
using AskForCores = std::function<int(size_t bytes, cpu_set_t* set)>;
std::vector<int> cores_by(const AskForCores& ask);

// Threads of the pool, and those made later, run on the cores of one node and get memory there
// while there is some; the ranks of a machine take the nodes in turn. Returns the node, and counts
// in cpu.node_bound; -1, and nothing changes, where there are fewer than two nodes.
int bind_to_node(int local_rank, const std::filesystem::path& sys = "/sys");

// Gives each of the pool's threads a core of its own, in that order; counted in cpu.core_pinning.
// `cores`: those of Pinning::list, each allowed to the process; empty: all of them, ascending.
void pin_threads(Pinning pinning, const std::vector<int>& cores);

void free_threads();  // undoes both: the pool's threads run where the process was started
void free_thread();   // this thread, which inherited its maker's core, runs on all of the process's

// How often the system moved one of the process's threads to another core; -1: it does not tell.
int64_t migrations();

}  // namespace bellows
