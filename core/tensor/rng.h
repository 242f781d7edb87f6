// Tensors of random values, made on any device from core/base/philox.h.
#pragma once
#include "core/base/philox.h"
#include "core/tensor/kernel.h"

namespace bellows {

// A permutation of [0, n) as i64. `serial` is the textbook's shuffle (Fisher, Yates) in one thread;
// otherwise Permutation, element by element in parallel. Different orders, equally random.
Tensor randperm(int64_t n, const RngKey& key, Device device, bool serial = false);

// Uniform from low to high, which only rounding reaches, or normal, element i from index i. In
// place; raises the version.
void fill_uniform(const Tensor& t, double low, double high, const RngKey& key);
void fill_normal(const Tensor& t, double mean, double deviation, const RngKey& key);

namespace kernels {
inline constinit Kernel<void(const Tensor& order, const RngKey& key)> randperm{"randperm"};
inline constinit Kernel<void(const Tensor& t, double low, double high, const RngKey& key)>
    fill_uniform{"fill_uniform"};
inline constinit Kernel<void(const Tensor& t, double mean, double deviation, const RngKey& key)>
    fill_normal{"fill_normal"};
}  // namespace kernels
}  // namespace bellows
