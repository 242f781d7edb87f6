#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"

namespace bellows {

// Grid-stride loop, one element per thread and round, in blocks of kThreads. Moves sizeof(To) +
// sizeof(From) bytes per element.
template <class To, class From>
static __global__ void copy_dense(To* to, const From* from, int64_t n) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) to[i] = convert<To>(from[i]);
}

template <class To, class From>
static __global__ void copy_strided(To* to, const From* from, Walk<2> walk, int64_t n) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto [to_at, from_at] = walk.at(i);
    to[to_at] = convert<To>(from[from_at]);
  }
}

static void copy_cuda(const Tensor& to, const Tensor& from) {
  const int64_t n = to.numel();
  if (n == 0) return;
  const bool dense = to.strides() == from.strides() && to.is_dense();
  if (dense && to.dtype() == from.dtype())
    return api_of(Device::cuda)
        .copy(to.bytes(), from.bytes(), to.nbytes(), current_stream(Device::cuda));
  visit_dtype(to.dtype(), [&]<class To>(To) {
    visit_dtype(from.dtype(), [&]<class From>(From) {
      if (dense)
        launch(copy_dense<To, From>, grid_of(n), to.ptr<To>(), from.ptr<From>(), n);
      else
        launch(copy_strided<To, From>, grid_of(n), to.ptr<To>(), from.ptr<From>(),
               Walk<2>(to.shape(), {&to.strides(), &from.strides()}), n);
    });
  });
}
static const bool gpu = kernels::copy.on(Device::cuda, copy_cuda);

}  // namespace bellows
