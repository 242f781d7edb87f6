// What `trainer doctor` looks at: gathered once, and judged by functions that tests hand another
// machine.
#pragma once
#include <map>
#include "core/device_info.h"
#include "core/topology.h"
#include "trainer/json.h"
#include "trainer/libraries.h"

namespace bellows {

struct Machine {
  Json environment;    // versions, CPU and its vector units: trainer/system.h
  Topology topology;
  std::vector<int> affinity;  // CPUs that this process may use
  int quota = 0;              // whole cores that its cgroup pays for; 0: no quota
  int cores = 1;              // allowed: the smaller of the two
  int threads = 1;            // of the OpenMP pool, unless a config says otherwise
  double load = 0;            // average of the last minute, over the whole machine
  int64_t available_bytes = 0;
  Libraries libraries;
  std::map<std::string, std::string> variables;  // of the environment, those that matter and are set
  CudaReport cuda;
  std::vector<std::pair<std::string, int>> gpu_nodes;  // {"0000:3b:00.0", 1}
  bool optimised = true;                               // this binary, without sanitizers
};
Machine this_machine();

// Facts, one a line, aligned.
std::string describe(const Machine& machine);

// What costs speed or stops a run: one line each, with what to type.
std::vector<std::string> findings(const Machine& machine);

}  // namespace bellows
