// Copy rates of memory and of a GPU: upper limits for copies and for kernels that only move data.
#pragma once
#include <cstdint>

namespace bellows {

// Returns the rate of y = a + s b on arrays larger than any cache, on all pool threads, in bytes/s.
double triad_rate();

// Rate of a copy of `bytes` bytes within the GPU, read and written, in bytes/s; needs a GPU.
double device_copy_rate(int64_t bytes);

}  // namespace bellows
