// Tensors of random values, computed on any device by core/base/philox.h.
#pragma once
#include "core/base/philox.h"
#include "core/tensor/kernel.h"

namespace bellows {

// Returns a permutation of [0, n) as i64, for n < 2^32. `serial` uses a Fisher-Yates shuffle on one
// host thread, else a Permutation, in parallel on `device`. Their orders differ.
Tensor randperm(int64_t n, const RngKey& key, Device device, bool serial = false);

// Fill a contiguous floating-point tensor in place and raise its version. Element i is random
// number i of the stream: uniform in [low, high), which rounding may reach, or normal.
void fill_uniform(const Tensor& t, double low, double high, const RngKey& key);
void fill_normal(const Tensor& t, double mean, double deviation, const RngKey& key);

namespace kernels {
inline constinit Kernel<void(const Tensor& order, const RngKey& key)> randperm{"randperm"};
// offset + scale * random number: normal, or uniform in [0, 1).
inline constinit Kernel<void(const Tensor& t, bool normal, double offset, double scale,
                             const RngKey& key)>
    fill_random{"fill_random"};
}  // namespace kernels
}  // namespace bellows
