#include "core/device/launch.cuh"
#include "core/tensor/map.cuh"
#include "core/tensor/rng.h"

namespace bellows {

// One element per thread and grid stride, in blocks of kThreads.
static __global__ void permute(int64_t* order, int64_t n, Permutation permutation) {
  await_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count()) order[i] = permutation(i);
}
static void randperm_cuda(const Tensor& order, const RngKey& key) {
  const int64_t n = order.numel();
  if (n) launch(permute, grid_of(n), order.ptr<int64_t>(), n, Permutation(n, key));
}

// Computes in double, as on the CPU, and rounds at the end, so both agree.
template <class T>
static __global__ void uniform(T* t, int64_t n, double low, double high, Philox rng) {
  await_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count())
    t[i] = T(Acc<T>(low + (high - low) * rng.uniform(i)));
}
template <class T>
static __global__ void normal(T* t, int64_t n, double mean, double deviation, Philox rng) {
  await_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count())
    t[i] = T(Acc<T>(mean + deviation * rng.normal(i)));
}

static void uniform_cuda(const Tensor& t, double low, double high, const RngKey& key) {
  CHECK(t.is_contiguous(), "fill_uniform: strides ", t.strides(), " are not row-major");
  visit_stored(t.dtype(), [&]<class T>(T) {
    launch(uniform<T>, grid_of(t.numel()), t.ptr<T>(), t.numel(), low, high, Philox(key));
  });
}
static void normal_cuda(const Tensor& t, double mean, double deviation, const RngKey& key) {
  CHECK(t.is_contiguous(), "fill_normal: strides ", t.strides(), " are not row-major");
  visit_stored(t.dtype(), [&]<class T>(T) {
    launch(normal<T>, grid_of(t.numel()), t.ptr<T>(), t.numel(), mean, deviation, Philox(key));
  });
}

static const bool gpu = kernels::randperm.on(Device::cuda, randperm_cuda) &&
                        kernels::fill_uniform.on(Device::cuda, uniform_cuda) &&
                        kernels::fill_normal.on(Device::cuda, normal_cuda);

}  // namespace bellows
