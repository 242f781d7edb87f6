#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"
#include "ops/dropout.h"

namespace bellows {

namespace {

// Each Philox draw decides four consecutive elements. Blocks of 256 threads, one draw per thread
// and iteration. Forward reads the step from the step state and saves it for backward.
template <class T>
__global__ void mask(const T* x, T* y, int64_t n, double p, RngKey key, const int64_t* step,
                     int64_t* kept_step) {
  key.step = *step;
  const Philox rng(key);
  using Four = AlignedVector<T, 4>;
  const Acc<T> kept = 1 / (1 - p);
  const bool fours =
      (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % sizeof(Four) == 0;
  for (int64_t draw = thread_index(); draw * 4 < n; draw += thread_count()) {
    const Philox::Four drawn = rng(draw);
    const int64_t first = draw * 4, count = std::min(n - first, int64_t(4));
    const bool whole = fours && count == 4;
    Four block{};
    if (whole)
      block = *reinterpret_cast<const Four*>(x + first);
    else
      for (int k = 0; k < count; ++k) block.at[k] = x[first + k];
    Acc<T> out[4];
    for (int k = 0; k < 4; ++k) {
      const bool drops = Philox::to_uniform(drawn.v[k]) < p;
      out[k] = drops ? Acc<T>(0) : Acc<T>(block.at[k]) * kept;
    }
    block = packed<T>(out);
    if (whole)
      *reinterpret_cast<Four*>(y + first) = block;
    else
      for (int k = 0; k < count; ++k) y[first + k] = block.at[k];
  }
  if (kept_step && thread_index() == 0) *kept_step = key.step;
}

Tensor masked(const Tensor& x, double p, const RngKey& key, const int64_t* step,
              int64_t* kept_step) {
  const Tensor dense = contiguous(x), y = empty(x.shape(), x);
  visit_stored(x.dtype(), [&]<class T>(T) {
    launch(mask<T>, grid_of((x.numel() + 3) / 4), dense.ptr<T>(), y.ptr<T>(), x.numel(), p, key,
           step, kept_step);
  });
  return y;
}

kernels::Dropout dropout_cuda(const Tensor& x, double p, const RngKey& key,
                              const StepState* state) {
  const Tensor step({1}, DType::i64, x.device());
  return {masked(x, p, key, &state->forwards, step.ptr<int64_t>()), step};
}

Tensor dropout_backward_cuda(const Tensor& dy, double p, const RngKey& key, const Tensor& step) {
  return masked(dy, p, key, step.ptr<int64_t>(), nullptr);
}

const bool gpu = kernels::dropout.on(Device::cuda, dropout_cuda) &&
                 kernels::dropout_backward.on(Device::cuda, dropout_backward_cuda);

}  // namespace
}  // namespace bellows
