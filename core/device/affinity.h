// Placement of the process: the cores that its threads run on, and the memory node of its pages.
#pragma once
#include "core/device/topology.h"

namespace bellows {

// Returns the cores that the process may use: all that it was started with or, if it is bound to a
// node, those of that node.
std::vector<int> process_cores();

// Moves the threads of the pool, and threads created later, to the cores of one NUMA node and
// prefers its memory. Ranks of one machine take the nodes in rotation. Returns the node and
// increments cpu.node_bound. With fewer than two nodes, returns -1 and changes nothing.
int bind_to_node(int local_rank, const std::filesystem::path& sys = "/sys");

// Pins each thread of the pool to one core, in placement() order; adds their number to
// cpu.core_pinning. `cores` is the order for Pinning::list: cores allowed to the process (else
// Error, exit 2), or empty for all of them, ascending.
void pin_threads(Pinning pinning, const std::vector<int>& cores);

void unpin_threads();  // undoes bind_to_node() and pin_threads()
void unpin_thread();   // undoes the pinning that this thread inherited from its creator

// Returns how often the system moved a thread of the process to another core, or -1 if unknown.
int64_t migrations();

}  // namespace bellows
