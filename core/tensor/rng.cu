#include "core/device/launch.cuh"
#include "core/tensor/map.cuh"
#include "core/tensor/rng.h"

namespace bellows {

// Grid-stride loop, one element per thread and round, in blocks of kThreads.
static __global__ void permute(int64_t* order, int64_t n, Permutation permutation) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) order[i] = permutation(i);
}
static void randperm_cuda(const Tensor& order, const RngKey& key) {
  const int64_t n = order.numel();
  if (n) launch(permute, grid_of(n), order.ptr<int64_t>(), n, Permutation(n, key));
}

// Computes in double, as on the CPU, and rounds at the end, so both agree.
template <class T, bool normal>
static __global__ void draw(T* t, int64_t n, double offset, double scale, Philox rng) {
  for (int64_t i = thread_index(); i < n; i += thread_count())
    t[i] = T(Acc<T>(offset + scale * (normal ? rng.normal(i) : rng.uniform(i))));
}

static void random_cuda(const Tensor& t, bool normal, double offset, double scale,
                        const RngKey& key) {
  CHECK(t.is_contiguous(), "fill_random: strides ", t.strides(), " are not row-major");
  visit_stored(t.dtype(), [&]<class T>(T) {
    const auto kernel = normal ? draw<T, true> : draw<T, false>;
    launch(kernel, grid_of(t.numel()), t.ptr<T>(), t.numel(), offset, scale, Philox(key));
  });
}

static const bool gpu = kernels::randperm.on(Device::cuda, randperm_cuda) &&
                        kernels::fill_random.on(Device::cuda, random_cuda);

}  // namespace bellows
