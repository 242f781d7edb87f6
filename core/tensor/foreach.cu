#include <cmath>
#include "core/tensor/foreach.cuh"
#include "core/tensor/step_state.h"

namespace bellows {

// Grid-stride loop, one element per thread and round, in blocks of kThreads.
template <class T> static __global__ void fill_with(T* t, int64_t n, T value) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) t[i] = value;
}

static void fill_cuda(const Tensor& t, double value) {
  CHECK(t.is_dense(), "fill: strides ", t.strides(), " have gaps");
  if (t.numel() == 0) return;
  visit_dtype(t.dtype(), [&]<class T>(T) {
    launch(fill_with<T>, grid_of(t.numel()), t.ptr<T>(), t.numel(), T(value));
  });
}

template <class A> struct AddScaled {
  A factor;
  __device__ A operator()(A sum, A t) const { return sum + factor * t; }
};

static void add_into_cuda(const Tensor& sum, const Tensor& t, double factor) {
  visit_stored(sum.dtype(), [&]<class T>(T) {
    map_into<T>(sum, {&sum, &t}, AddScaled<Acc<T>>{Acc<T>(factor)});
  });
}

// The kernels below take a block of kThreads per chunk (core/tensor/foreach.cuh).
static __global__ void lerp_chunks(const __grid_constant__ Chunks list,
                                   const __grid_constant__ Chunks to, double share,
                                   const StepState* state) {
  if (state && state->found_inf) return;
  visit_pair(list, to, blockIdx.x, [&]<class T>(T* t, const T* other, int64_t n) {
    using A = Acc<T>;
    const auto lerp = [s = A(share)](int64_t, A from, A to) {
      return std::fma(s, to - from, from);
    };
    map_line(t, n, Team{int(blockDim.x)}, lerp, t, other);
  });
}
static void lerp_each_cuda(TensorSpan list, TensorSpan to, double share, const StepState* state) {
  for_pairs("lerp_each", list, to, [&](const Chunks& chunks, const Chunks& others) {
    launch(lerp_chunks, {unsigned(chunks.count()), kThreads}, chunks, others, share, state);
  });
}

static __global__ void swap_chunks(const __grid_constant__ Chunks a,
                                   const __grid_constant__ Chunks b) {
  visit_pair(a, b, blockIdx.x, [&]<class T>(T* x, T* y, int64_t n) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const T value = x[i];
      x[i] = y[i];
      y[i] = value;
    }
  });
}
static void swap_each_cuda(TensorSpan a, TensorSpan b) {
  for_pairs("swap_each", a, b, [](const Chunks& chunks, const Chunks& others) {
    launch(swap_chunks, {unsigned(chunks.count()), kThreads}, chunks, others);
  });
}

static __global__ void copy_chunks(const __grid_constant__ Chunks to,
                                   const __grid_constant__ Chunks from,
                                   const StepState* only_if_skipped) {
  if (only_if_skipped && !only_if_skipped->found_inf) return;
  visit_pair(to, from, blockIdx.x, [&]<class T>(T* t, const T* other, int64_t n) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) t[i] = other[i];
  });
}
// Chunks hold floating-point values. A move of bits may take 64-bit integers for f64.
static Tensors as_floats(TensorSpan list) {
  Tensors all(list.begin(), list.end());
  for (Tensor& t : all)
    if (t.dtype() == DType::i64)
      t = Tensor(t.storage(), {}, DType::f64).view(t.shape(), t.strides(), t.offset());
  return all;
}
static void copy_each_cuda(TensorSpan to, TensorSpan from, const StepState* only_if_skipped) {
  const auto copy = [&](const Chunks& chunks, const Chunks& others) {
    launch(copy_chunks, {unsigned(chunks.count()), kThreads}, chunks, others, only_if_skipped);
  };
  for_pairs("copy_each", as_floats(to), as_floats(from), copy);
}

struct WriteRoot {
  float* norm;
  __device__ void operator()(double squares) const { *norm = float(std::sqrt(squares)); }
};
static void norm_of_cuda(TensorSpan list, const Tensor& norm) {
  sum_of_squares(list, WriteRoot{norm.ptr<float>()});
}

static const bool gpu = kernels::fill.on(Device::cuda, fill_cuda) &&
                        kernels::add_into.on(Device::cuda, add_into_cuda) &&
                        kernels::lerp_each.on(Device::cuda, lerp_each_cuda) &&
                        kernels::swap_each.on(Device::cuda, swap_each_cuda) &&
                        kernels::copy_each.on(Device::cuda, copy_each_cuda) &&
                        kernels::norm_of.on(Device::cuda, norm_of_cuda);

}  // namespace bellows
