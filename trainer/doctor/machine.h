// Facts that `trainer doctor` judges. They are collected once, so tests can pass another machine to
// describe() and findings().
#pragma once
#include <map>
#include "core/base/json.h"
#include "core/device/device_info.h"
#include "core/device/topology.h"
#include "trainer/log/system.h"

namespace bellows {

struct Machine {
  Json environment;  // versions, CPU and its vector units: trainer/log/system.h
  Topology topology;
  std::vector<int> affinity;  // CPUs in the affinity mask of this process
  int quota = 0;              // CPU quota of its cgroup in whole cores; 0: none
  int cores = 1;              // allowed: the smaller of affinity and quota
  int threads = 1;            // of the OpenMP pool, unless a config says otherwise
  int other_trainers = 0;     // processes of this program, besides this one
  double load = 0;            // average over the last minute, of the whole machine
  int64_t available_bytes = 0;
  Libraries libraries;
  std::map<std::string, std::string> variables;  // relevant environment variables that are set
  CudaReport cuda;
  Versions cuda_libraries;
  std::vector<int> gpu_nodes;  // NUMA node of each GPU; -1: unknown
  bool optimized = true;       // this binary is optimized and has no sanitizers
};
Machine this_machine();

// Returns the facts as an aligned table, one row per topic.
std::string describe(const Machine& machine);

// Returns the problems that cost speed or stop a run, one line each, with what to type.
std::vector<std::string> findings(const Machine& machine);

}  // namespace bellows
