// batch_norm forward on the GPU: two launches for the batch's statistics and the update of the
// running ones, a third one for y.
#include "ops/norm/batch_norm_streaming.cuh"

namespace bellows {

using namespace batch_norm_cuda;

namespace {

// Groups are merged by the rule of Chan, Golub and LeVeque.
template <class T> struct Statistics {
  using A = Acc<T>;
  const T* x;
  A* out;
  Running running;

  template <int K, int M> struct Terms {  // for pieces with M different channels
    static constexpr int kAhead = 4;
    const T* x;
    AlignedVector<T, M> pivot;
    __device__ AlignedVector<T, K> read(int64_t i) const { return load<K>(x + i); }
    __device__ void add(int64_t, const AlignedVector<T, K>& in, Sums<A> (&sums)[K]) const {
      for (int k = 0; k < K; ++k) {
        const A d = A(in.at[k]) - A(pivot.at[k % M]);
        sums[k] = sums[k] + Sums<A>{d, d * d};
      }
    }
  };
  // first: offset of the group's first element in channel c, which is the pivot.
  template <int K, int M> __device__ Terms<K, M> terms(int64_t first, int) const {
    return {x, load<M>(x + first)};
  }
  __device__ A pivot(int64_t first) const { return A(x[first]); }
  __device__ Sums<A> part(const Sums<A>& sums, double n, A pivot) const {
    const double mean = sums.first / n;
    return {A(pivot + mean), A(std::max(0.0, sums.second - sums.first * mean))};
  }
  __device__ Sums<double> of_group(const Sums<A>& part, double n, const Sums<A>& first) const {
    return by_pivot_below(Sums<A>{0, part.second}, n, double(part.first) - first.first);
  }
  __device__ void store(const Sums<double>& sums, const Rows& rows, int c,
                        const Sums<A>& first) const {
    const double n = double(rows.count) * rows.inner.size;
    store_statistics(out, rows.channels, c, sums, n, first.first, running);
  }
};

// Blocks of kThreads threads, 16 bytes per thread and row. Moves x, residual and y once.
template <int K, bool adds, bool gelu, class T, class A = Acc<T>>
__global__ void forward_rows(const T* __restrict__ x, const T* __restrict__ residual,
                             T* __restrict__ y, uint8_t* __restrict__ bits, Batch<A> batch,
                             const A* weight, const A* bias, Groups groups) {
  await_predecessor();
  const int column = own_column<K>();
  if (column >= groups.rows.length) return;
  Forward<K, A> forward;
  for (int k = 0; k < K; ++k) forward.of(k, batch, weight, bias, (column + k) / groups.rows.inner);
  const auto read = [&](int64_t i) { return read_forward<adds, K>(x, residual, i); };
  back_up_the_rows(groups, column, read, [&](int64_t i, const auto& in) {
    forward.template put<gelu>(y, gelu ? nullptr : bits, i, in);
  });
}

// Blocks as in forward_rows. Moves both inputs and y once.
template <int K, class T, class A = Acc<T>>
__global__ void forward_both(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ y,
                             uint8_t* __restrict__ bits, Batch<A> batch_a, const A* weight_a,
                             const A* bias_a, Batch<A> batch_b, const A* weight_b, const A* bias_b,
                             Groups groups) {
  await_predecessor();
  const int column = own_column<K>();
  if (column >= groups.rows.length) return;
  Forward<K, A> forward_a, forward_b;
  for (int k = 0; k < K; ++k) {
    const int c = (column + k) / groups.rows.inner;
    forward_a.of(k, batch_a, weight_a, bias_a, c);
    forward_b.of(k, batch_b, weight_b, bias_b, c);
  }
  const auto read = [&](int64_t i) { return read_forward<true, K>(a, b, i); };
  back_up_the_rows(groups, column, read, [&](int64_t i, const Read<true, K, T>& in) {
    forward_a.put(y, bits, i, Read<true, K, T>{in.x, forward_b.of(in.residual)});
  });
}

template <class A>
__global__ void update_channels(Running running, const A* statistics, int channels) {
  await_predecessor();
  for (int64_t c = thread_index(); c < channels; c += thread_count())
    running.update(int(c), statistics[c], statistics[channels + c]);
}

}  // namespace

static Tensor statistics_cuda(const Tensor& x_, const RunningUpdate& running) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_);
  return visit_stored(x.dtype(), [&]<class T>(T) {
    const Tensor statistics({2, rows.channels}, dtype_of<Acc<T>>, x.device());
    sum_channels<T>(Statistics<T>{x.ptr<T>(), statistics.ptr<Acc<T>>(), Running(running)}, rows);
    return statistics;
  });
}

static void update_running_cuda(const Tensor& statistics, const RunningUpdate& running) {
  if (!running.mean.defined()) return;
  const int channels = int(running.mean.numel());
  visit_float(statistics.dtype(), [&]<class A>(A) {
    launch(update_channels<A>, grid_of(channels), Running(running), statistics.ptr<A>(), channels);
  });
}

// With gelu there is neither a residual nor relu.
template <bool gelu>
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
      const auto start = [&]<bool adds>() {
        launch_on_rows<forward_rows<K, adds, gelu, T>, K>(
            rows, x.ptr<T>(), pointer<T>(residual), y.ptr<T>(), pointer<uint8_t>(bits),
            Batch<A>(statistics, eps), weight.ptr<A>(), bias.ptr<A>());
      };
      if constexpr (gelu)
        start.template operator()<false>();
      else
        with_added(residual, start);
    });
  });
  return {y, bits};
}
static Tensor gelu_cuda(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                        const Tensor& bias, double eps) {
  return forward_cuda<true>(x, statistics, weight, bias, {}, false, eps).y;
}

static kernels::Normalized forward_both_cuda(const Tensor& a, const Tensor& statistics_a,
                                             const Tensor& weight_a, const Tensor& bias_a,
                                             double eps_a, const Tensor& b,
                                             const Tensor& statistics_b, const Tensor& weight_b,
                                             const Tensor& bias_b, double eps_b) {
  const Rows rows(a);
  const Tensor x = rows.ordered(a), other = rows.ordered(b), y = rows.like(a);
  Tensor bits;
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    in_pieces<T>(rows.length, [&]<int K>() {
      bits = Tensor({x.numel() / K}, DType::u8, x.device());
      if (x.numel() == 0) return;
      launch_on_rows<forward_both<K, T>, K>(
          rows, x.ptr<T>(), other.ptr<T>(), y.ptr<T>(), bits.ptr<uint8_t>(),
          Batch<A>(statistics_a, eps_a), weight_a.ptr<A>(), bias_a.ptr<A>(),
          Batch<A>(statistics_b, eps_b), weight_b.ptr<A>(), bias_b.ptr<A>());
    });
  });
  return {y, bits};
}

static const bool gpu = kernels::batch_norms.on(Device::cuda, forward_both_cuda) &&
                        kernels::channel_statistics.on(Device::cuda, statistics_cuda) &&
                        kernels::update_running.on(Device::cuda, update_running_cuda) &&
                        kernels::batch_norm.on(Device::cuda, forward_cuda<false>) &&
                        kernels::batch_norm_gelu.on(Device::cuda, gelu_cuda);

}  // namespace bellows
