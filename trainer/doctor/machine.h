// What `trainer doctor` looks at: gathered once, and judged by functions that tests hand another
// machine.
#pragma once
#include <map>
#include "core/device/device_info.h"
#include "core/device/topology.h"
#include "core/base/json.h"
#include "trainer/log/libraries.h"

namespace bellows {

struct Machine {
  Json environment;  // versions, CPU and its vector units: trainer/log/system.h
  Topology topology;
  std::vector<int> affinity;  // CPUs that this process may use
  int quota = 0;              // whole cores that its cgroup pays for; 0: no quota
  int cores = 1;              // allowed: the smaller of the two
  int threads = 1;            // of the OpenMP pool, unless a config says otherwise
  int other_trainers = 0;     // processes of this program, besides this one
  double load = 0;            // average of the last minute, over the whole machine
  int64_t available_bytes = 0;
  Libraries libraries;
  std::map<std::string, std::string> variables;  // those set of the environment's that matter
  CudaReport cuda;
  Versions cuda_libraries;
  std::vector<int> gpu_nodes;  // the NUMA node of each GPU, -1: unknown
  bool optimised = true;       // this binary, and without sanitizers
};
Machine this_machine();

// Facts, one a line, aligned.
std::string describe(const Machine& machine);

// What costs speed or stops a run: one line each, with what to type.
std::vector<std::string> findings(const Machine& machine);

}  // namespace bellows
