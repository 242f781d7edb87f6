#include <cmath>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/map.cuh"

namespace bellows {

// Grid-stride loop, one element per thread and round, blocks of 256 threads; reads each element
// once.
template <class T> static __global__ void find_nonfinite(const T* t, int64_t n, int32_t* found) {
  for (int64_t i = thread_index(); i < n; i += thread_count())
    if (!std::isfinite(Acc<T>(t[i]))) atomicExch(found, 1);
}

static bool all_finite_cuda(const Tensor& t) {
  const Tensor dense = contiguous(t), found = full({}, 0, DType::i32, Device::cuda);
  visit_stored(t.dtype(), [&]<class T>(T) {
    launch(find_nonfinite<T>, grid_of(t.numel()), dense.ptr<T>(), t.numel(), found.ptr<int32_t>());
  });
  return found.item() == 0;
}

static const bool gpu = kernels::all_finite.on(Device::cuda, all_finite_cuda);

}  // namespace bellows
