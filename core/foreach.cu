#include <cmath>
#include "core/foreach.cuh"
#include "core/shared.cuh"

namespace bellows {

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

static __global__ void scale_chunks(Chunks chunks, double factor) {
  chunks.visit(blockIdx.x, [&]<class T>(T* t, int64_t n) {
    const auto scaled = [f = Acc<T>(factor)](int64_t, Acc<T> value) { return value * f; };
    map_line(t, n, 1, Team{int(blockDim.x)}, scaled, t);
  });
}

static void scale_each_cuda(TensorSpan list, double factor) {
  for_chunks("scale_each", list, [&](const Chunks& chunks) {
    launch(scale_chunks, {unsigned(chunks.count()), kThreads}, chunks, factor);
  });
}

static __global__ void square_chunks(Chunks chunks, double* parts) {
  double squares = 0;
  chunks.visit(blockIdx.x, [&]<class T>(const T* t, int64_t n) {
    const auto take = [&](int64_t, double value) { squares += value * value; };
    for_line<T>(n, 1, Team{int(blockDim.x)}, take, t);
  });
  squares = block_sum(squares, dynamic_shared<double>());
  if (threadIdx.x == 0) parts[blockIdx.x] = squares;
}

static __global__ void root_of_sum(const double* parts, int64_t n, float* norm) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) *norm = float(std::sqrt(sum));
}

static void norm_of_cuda(TensorSpan list, const Tensor& norm) {
  int64_t n = 0;
  for (const Tensor& t : list) n += (t.numel() + Chunks::kLength - 1) / Chunks::kLength;
  const Tensor parts({n}, DType::f64, norm.device());
  const size_t scratch = kWarp * sizeof(double);
  double* next = parts.ptr<double>();
  for_chunks("norm_of", list, [&](const Chunks& chunks) {
    launch(square_chunks, {unsigned(chunks.count()), kThreads, scratch}, chunks, next);
    next += chunks.count();
  });
  launch(root_of_sum, {1, kThreads, scratch}, parts.ptr<double>(), n, norm.ptr<float>());
}

static const bool gpu = kernels::fill.on(Device::cuda, fill_cuda) &&
                        kernels::add_into.on(Device::cuda, add_into_cuda) &&
                        kernels::scale_each.on(Device::cuda, scale_each_cuda) &&
                        kernels::norm_of.on(Device::cuda, norm_of_cuda);

}  // namespace bellows
