// The stress test: is the hardware well? Matrix products at full load, and is their result right?
#pragma once
#include "trainer/bench/product.h"

namespace bellows {

struct Stress {
  const char* precision;
  double flop_per_s = 0;                      // of all products, up to the one synchronisation
  double slowest_part = 0, fastest_part = 0;  // flop/s of tenths of them
  double peak = 0;         // flop/s of multiply-adds in registers; 0: not measured (on a GPU)
  double worst_error = 0;  // trainer/bench/product.h: above 1 it is wrong
};

// `products` of n x n x n, one behind the other, in each precision that the device has.
std::vector<Stress> stress(Device device, int64_t n, int products = 100);

// 8192 on a GPU; on a CPU what a hundred FP32 products take about two seconds for.
int64_t stress_size(Device device);

// Multiply-adds a second in vector registers, on all threads of the pool, times two; 0 where there
// are none of that type. Tiles (AMX) are not counted.
double fma_rate(DType dtype);

}  // namespace bellows
