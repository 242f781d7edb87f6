// batch_norm and gelu on the GPU. Backward writes dz in the pass that sums it up, because GELU's
// slope takes some 40 instructions: computing it again in the pass for dx would cost more than
// writing and reading dz in 16 bits.
#include "ops/base/functors.h"
#include "ops/norm/batch_norm_gelu.h"
#include "ops/norm/batch_norm_streaming.cuh"

namespace bellows {

using namespace batch_norm_cuda;

namespace {

// Blocks of kThreads threads, 16 bytes per thread and row. Moves x and y once.
template <int K, class T, class A = Acc<T>>
__global__ void forward_gelu(const T* __restrict__ x, T* __restrict__ y, Batch<A> batch,
                             const A* weight, const A* bias, Groups groups) {
  await_predecessor();
  const int column = own_column<K>();
  if (column >= groups.rows.length) return;
  Forward<K, A> norm;
  for (int k = 0; k < K; ++k) norm.of(k, batch, weight, bias, (column + k) / groups.rows.inner);
  const auto read = [&](int64_t i) { return load<K>(x + i); };
  back_up_the_rows(groups, column, read, [&](int64_t i, const AlignedVector<T, K>& in) {
    A out[K];
    for (int k = 0; k < K; ++k)
      out[k] = functors::Gelu::value((A(in.at[k]) - norm.mean[k]) * norm.scale[k] + norm.shift[k]);
    store(y + i, packed<T>(out));
  });
}

// The sums of backward. Moves x, dy and dz once.
template <class T> struct GeluGradients : GradientSums<Acc<T>> {
  using A = Acc<T>;
  const T *x, *dy;
  T* dz;
  const A *weight, *bias;

  template <int K> struct Read { AlignedVector<T, K> x, dy; };
  template <int K, int M> struct Terms {  // for pieces with M different channels
    static constexpr int kAhead = 2;
    const T *x, *dy;
    T* dz;
    Forward<M, A> norm;
    __device__ Read<K> read(int64_t i) const { return {load<K>(x + i), load<K>(dy + i)}; }
    // Sums up dz as rounded, as the pass for dx reads it.
    __device__ void add(int64_t i, const Read<K>& in, Sums<A> (&sums)[K]) const {
      A d[K], out[K];
      for (int k = 0; k < K; ++k) {
        d[k] = A(in.x.at[k]) - norm.mean[k % M];
        out[k] =
            A(in.dy.at[k]) * functors::Gelu::slope(d[k] * norm.scale[k % M] + norm.shift[k % M]);
      }
      const AlignedVector<T, K> rounded = packed<T>(out);
      bellows::store(dz + i, rounded);
      for (int k = 0; k < K; ++k) {
        const A g = A(rounded.at[k]);
        sums[k] = sums[k] + Sums<A>{g, g * d[k]};
      }
    }
  };
  template <int K, int M> __device__ Terms<K, M> terms(int64_t, int c) const {
    Terms<K, M> terms{x, dy, dz, {}};
    for (int m = 0; m < M; ++m) terms.norm.of(m, this->batch, weight, bias, c + m);
    return terms;
  }
};

}  // namespace

static Tensor forward_cuda(const Tensor& x_, const Tensor& statistics, const Tensor& weight,
                           const Tensor& bias, double eps) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), y = rows.like(x_);
  if (x.numel() == 0) return y;
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    in_pieces<T>(rows.length, [&]<int K>() {
      launch_on_rows<forward_gelu<K, T>, K>(rows, x.ptr<T>(), y.ptr<T>(), Batch<A>(statistics, eps),
                                            weight.ptr<A>(), bias.ptr<A>());
    });
  });
  return y;
}

static Tensor backward_cuda(const Tensor& dy_, const Tensor& x_, const Tensor& statistics,
                            const Tensor& weight, const Tensor& bias, double eps, const Tensor& dw,
                            const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dz = rows.like(x_);
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    sum_channels<T>(GeluGradients<T>{{Batch<A>(statistics, eps), dw.ptr<A>(), db.ptr<A>()},
                                     x.ptr<T>(),
                                     dy.ptr<T>(),
                                     dz.ptr<T>(),
                                     weight.ptr<A>(),
                                     bias.ptr<A>()},
                    rows);
  });
  dw.raise_version();
  db.raise_version();
  return dz;
}

static const bool gpu = kernels::batch_norm_gelu.on(Device::cuda, forward_cuda) &&
                        kernels::batch_norm_gelu_backward.on(Device::cuda, backward_cuda);

}  // namespace bellows
