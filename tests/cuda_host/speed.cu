// Measures the speed of cuda_host for its README. Asserts nothing.
#include <chrono>
#include <cstdio>
#include "core/device/launch.cuh"
#include "core/device/reduce.cuh"
#include "tests/cuda_host/cuda_host.h"
#include "tests/cuda_host/own_stream.h"

using namespace bellows;
using namespace cuda_host;

static __global__ void nothing(int) {}
static __global__ void barriers(int times) {
  for (int i = 0; i < times; ++i) __syncthreads();
}
static __global__ void shuffles(int times) {
  for (int i = 0; i < times; ++i) __shfl_xor_sync(~0u, i, 1);
}

static void measure(const char* what, void (*kernel)(int), int grid, int block, int times) {
  using clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = clock::now();
    launch(kernel, {unsigned(grid), unsigned(block), 0, compute()}, times);
    compute().synchronize();
    best = std::min(best, std::chrono::duration<double>(clock::now() - start).count());
  }
  std::printf("%-34s %6.1f million per second\n", what, double(grid) * block * times / best / 1e6);
}

int main() {
  cuda_host::reset();
  measure("blocks of 1 thread", nothing, 10000, 1, 1);
  measure("threads, in blocks of 256", nothing, 1000, 256, 1);
  measure("threads x barriers, 32 threads", barriers, 10, 32, 1000);
  measure("threads x barriers, 256 threads", barriers, 10, 256, 1000);
  measure("threads x barriers, 1024 threads", barriers, 10, 1024, 1000);
  measure("threads x shuffles, 256 threads", shuffles, 10, 256, 1000);
}
