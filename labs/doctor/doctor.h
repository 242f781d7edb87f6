// The parts of `trainer doctor`: facts about this machine and findings, the stress test, and
// weights whose sizes do not suit Tensor Cores.
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

struct Stress {
  const char* precision;
  double flop_per_s = 0;  // rate over all products, which end in one synchronization
  double slowest_part = 0, fastest_part = 0;  // flop/s of the slowest and fastest tenth
  double peak = 0;         // flop/s of multiply-adds in registers; 0: not measured (on a GPU)
  double worst_error = 0;  // in units of the rounding bound (worst_error); above 1: wrong
};

// Runs `products` products of n x n x n one after the other, in each precision of the device.
// n: from 1 to 65536.
std::vector<Stress> stress(Device device, int64_t n, int products = 100);

// Returns n for stress(): 8192 on a GPU. On a CPU: the n, from 256 to 8192, at which 100 FP32
// products take at most about two seconds.
int64_t stress_size(Device device);

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

// ---- shapes

// Returns a table of the weights (out, in, ..) with `out` or `in` not a multiple of 8, and the
// sizes to pad them to. Returns one line of text if there are none. Tensors of rank < 2 are
// ignored.
std::string unaligned_shapes(const NamedTensors& parameters);

}  // namespace bellows
