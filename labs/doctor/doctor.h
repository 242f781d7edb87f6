// The parts of `trainer doctor`: facts about this machine and findings, the stress test, and the
// watch of its load.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/device/device_info.h"
#include "core/device/topology.h"
#include "labs/bench/product.h"
#include "trainer/log/system.h"

namespace bellows {

// Facts that findings() judges. They are collected once, so tests can pass another machine to
// describe() and findings().
struct Machine {
  Json environment;  // versions, CPU and its vector units: trainer/log/system.h
  Topology topology;
  std::vector<int> affinity;  // CPUs in the affinity mask of this process
  int quota = 0;              // CPU quota of its cgroup in whole cores; 0: none
  int cores = 1;              // allowed: the smaller of affinity and quota
  int threads = 1;            // size of the OpenMP pool, unless a config sets another
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

// ---- the stress test: matrix products at full load, with verified results

// Prints the rates of 100 products of n x n x n in each precision of the device, and whether they
// are right. n: from 1 to 65536; 0 chooses a size. Throws Error (exit 5) if a result is wrong: no
// result of such a machine can be trusted.
void stress(Device device, int64_t n);

// Returns the peak FLOP/s of multiply-adds in vector registers on all pool threads, each counted as
// two operations; for bf16 those of AMX tiles, if the CPU has them. Returns 0 if there are none.
double fma_rate(DType dtype);

// Returns a table of the FLOP/s of each library of f32 products (cpu.blas), beside the peak, and
// the kernels that OpenBLAS has chosen.
std::string blas_rates();

// ---- watch

// Prints a line a second: load of the machine, and the costs that the run in that folder (or "")
// has logged last. Ends after `lines` lines or, if that is 0, with a signal. Returns the exit code.
int watch_machine(const std::string& run, int64_t lines);

}  // namespace bellows
