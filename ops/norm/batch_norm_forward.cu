// batch_norm forward on the GPU: two launches for the batch's statistics, a third one for y.
#include "ops/norm/batch_norm_streaming.cuh"

namespace bellows {

using namespace batch_norm_cuda;

namespace {

// The pivot is an element of the group. In double, all groups are converted to the first one's.
template <class T> struct Statistics {
  using A = Acc<T>;
  const T* x;
  A* out;

  template <int K, int M> struct Terms {  // for pieces with M different channels
    static constexpr int kAhead = 4;
    const T* x;
    A pivot[M] = {};
    __device__ AlignedVector<T, K> read(int64_t i) const { return load<K>(x + i); }
    __device__ void add(const AlignedVector<T, K>& in, Sums<A> (&sums)[K]) const {
      for (int k = 0; k < K; ++k) {
        const A d = A(in.at[k]) - pivot[k % M];
        sums[k] = sums[k] + Sums<A>{d, d * d};
      }
    }
  };
  // first: offset of the group's first element in channel c.
  template <int K, int M> __device__ Terms<K, M> terms(int64_t first, int) const {
    Terms<K, M> terms{x};
    for (int m = 0; m < M; ++m) terms.pivot[m] = A(x[first + m]);
    return terms;
  }
  __device__ Sums<double> of_group(Sums<A> sums, const Groups& groups, int g, int c) const {
    const double n = double(groups.end(g) - groups.begin(g)) * groups.rows.inner.size;
    const double own = A(x[groups.rows.first(groups.begin(g), c)]);
    return by_pivot_below(sums, n, own - pivot(groups, c));
  }
  __device__ void store(Sums<double> sums, const Groups& groups, int c) const {
    const double n = double(groups.rows.count) * groups.rows.inner.size;
    store_statistics(out, groups.rows.channels, c, sums, n, pivot(groups, c));
  }
  __device__ double pivot(const Groups& groups, int c) const {
    return A(x[groups.rows.first(0, c)]);
  }
};

// Blocks of kThreads threads, 16 bytes per thread and row. Moves x, residual and y once.
template <int K, class T, class A = Acc<T>>
__global__ void forward_rows(const T* __restrict__ x, const T* __restrict__ residual,
                             T* __restrict__ y, uint8_t* __restrict__ bits, Batch<A> batch,
                             const A* weight, const A* bias, Rows rows) {
  await_predecessor();
  const int column = own_column<K>();
  if (column >= rows.length) return;
  Forward<K, A> forward;
  for (int k = 0; k < K; ++k) forward.of(k, batch, weight, bias, (column + k) / rows.inner);
  struct Met {
    AlignedVector<T, K> x, residual;
  };
  const auto read = [&](int64_t i) {
    return Met{load<K>(x + i), residual ? load<K>(residual + i) : AlignedVector<T, K>()};
  };
  down_the_rows(rows, column, read,
                [&](int64_t i, const Met& met) { forward.put(y, bits, i, met.x, met.residual); });
}

template <class A, class R>
__global__ void move_running(R* mean, R* var, int64_t* batches, const A* statistics, int channels,
                             double momentum, double unbiased) {
  await_predecessor();
  if (batches && thread_index() == 0) ++*batches;
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    mean[c] = R(kernels::moved(mean[c], statistics[c], momentum));
    var[c] = R(kernels::moved(var[c], statistics[channels + c], momentum, unbiased));
  }
}

}  // namespace

static Tensor statistics_cuda(const Tensor& x_) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_);
  return visit_stored(x.dtype(), [&]<class T>(T) {
    const Tensor statistics({2, rows.channels}, dtype_of<Acc<T>>, x.device());
    sum_channels<T>(Statistics<T>{x.ptr<T>(), statistics.ptr<Acc<T>>()}, rows);
    return statistics;
  });
}

static void update_running_cuda(const Tensor& mean, const Tensor& var, const Tensor& batches,
                                const Tensor& statistics, double momentum, double unbiased) {
  const int channels = int(mean.numel());
  visit_float(statistics.dtype(), [&]<class A>(A) {
    visit_float(mean.dtype(), [&]<class R>(R) {
      launch(move_running<A, R>, grid_of(channels), mean.ptr<R>(), var.ptr<R>(),
             pointer<int64_t>(batches), statistics.ptr<A>(), channels, momentum, unbiased);
    });
  });
}

static kernels::Normalized forward_cuda(const Tensor& x_, const Tensor& statistics,
                                        const Tensor& weight, const Tensor& bias,
                                        const Tensor& residual_, bool relu, double eps) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), y = rows.like(x_);
  const Tensor residual = residual_.defined() ? rows.ordered(residual_) : residual_;
  Tensor bits;
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    in_pieces<T>(rows.length, [&]<int K>() {
      if (relu) bits = Tensor({x.numel() / K}, DType::u8, x.device());
      if (x.numel() == 0) return;
      launch(forward_rows<K, T>, grid_of_rows<K>(rows), x.ptr<T>(), pointer<T>(residual),
             y.ptr<T>(), pointer<uint8_t>(bits), Batch<A>(statistics, eps), weight.ptr<A>(),
             bias.ptr<A>(), rows);
    });
  });
  return {y, bits};
}

static const bool gpu = kernels::channel_statistics.on(Device::cuda, statistics_cuda) &&
                        kernels::update_running.on(Device::cuda, update_running_cuda) &&
                        kernels::batch_norm.on(Device::cuda, forward_cuda);

}  // namespace bellows
