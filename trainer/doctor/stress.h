// The stress test of `trainer doctor`: matrix products at full load, with verified results.
#pragma once
#include "trainer/bench/product.h"

namespace bellows {

struct Stress {
  const char* precision;
  double flop_per_s = 0;                      // of all products, which end in one synchronization
  double slowest_part = 0, fastest_part = 0;  // flop/s of the slowest and fastest tenth
  double peak = 0;         // flop/s of multiply-adds in registers; 0: not measured (on a GPU)
  double worst_error = 0;  // in units of the rounding bound (worst_error); above 1: wrong
};

// Runs `products` products of n x n x n one after the other, in each precision of the device.
// Throws Error (exit 2) unless n is from 1 to 65536.
std::vector<Stress> stress(Device device, int64_t n, int products = 100);

// Returns n for stress(): 8192 on a GPU. On a CPU the n at which 100 FP32 products take at most
// about two seconds, from 256 to 8192.
int64_t stress_size(Device device);

// Returns the peak FLOP/s of multiply-adds in vector registers on all pool threads, each counted as
// two operations. 0 if the CPU has none for this dtype. AMX tiles are not counted.
double fma_rate(DType dtype);

}  // namespace bellows
