// batch_norm forward on the GPU: two launches for the batch's statistics and the update of the
// running ones, a third one for y.
#include "ops/norm/batch_norm.cuh"

namespace bellows {

using namespace batch_norm_cuda;

namespace {

// Groups are merged by the rule of Chan, Golub and LeVeque.
template <class T> struct Statistics {
  using A = Acc<T>;
  const T* x;
  A* out;
  Running<A> running;

  template <int K, int M> struct Terms {  // M: number of different channels in a piece
    static constexpr int kUnroll = 4;
    const T* x;
    AlignedVector<T, M> pivot;
    __device__ void add(int64_t i, Sums<A> (&sums)[K]) const {
      const AlignedVector<T, K> in = load<K>(x + i);
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
  // Sums of distances from the mean of the first group.
  __device__ Sums<double> of_group(const Sums<A>& part, double n, const Sums<A>& first) const {
    const double delta = double(part.first) - first.first;
    return {n * delta, part.second + delta * (n * delta)};
  }
  // Writes mean and biased variance of channel c.
  __device__ void store(const Sums<double>& sums, const Rows& rows, int c,
                        const Sums<A>& first) const {
    const double n = double(rows.count) * rows.inner.size, mean = sums.first / n;
    out[c] = A(first.first + mean);
    out[rows.channels + c] = A(std::max(0.0, sums.second / n - mean * mean));
    running.update(c, out[c], out[rows.channels + c]);
  }
};

// Blocks of kThreads threads, 16 bytes per thread and row. Moves x, the residual and y once.
template <int K, bool adds, class T, class A = Acc<T>>
__global__ void forward_rows(const T* __restrict__ x, const T* __restrict__ residual,
                             T* __restrict__ y, uint8_t* __restrict__ bits, Batch<A> batch,
                             const A* weight, const A* bias, Groups groups) {
  const int column = own_column<K>();
  if (column >= groups.rows.length) return;
  Forward<K, A> forward;
  for (int k = 0; k < K; ++k) forward.of(k, batch, weight, bias, (column + k) / groups.rows.inner);
  for_own_rows(groups, column,
               [&](int64_t i) { forward.template put<adds>(x, residual, y, bits, i); });
}

template <class A>
__global__ void update_channels(Running<A> running, const A* statistics, int channels) {
  for (int64_t c = thread_index(); c < channels; c += thread_count())
    running.update(int(c), statistics[c], statistics[channels + c]);
}

}  // namespace

static Tensor statistics_cuda(const Tensor& x_, const RunningUpdate& running) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_);
  return visit_stored(x.dtype(), [&]<class T>(T) {
    const Tensor statistics({2, rows.channels}, dtype_of<Acc<T>>, x.device());
    sum_channels<T>(Statistics<T>{x.ptr<T>(), statistics.ptr<Acc<T>>(), Running<Acc<T>>(running)},
                    rows);
    return statistics;
  });
}

static void update_running_cuda(const Tensor& statistics, const RunningUpdate& running) {
  if (!running.mean.defined()) return;
  const int channels = int(running.mean.numel());
  visit_float(statistics.dtype(), [&]<class A>(A) {
    launch(update_channels<A>, grid_of(channels), Running<A>(running), statistics.ptr<A>(),
           channels);
  });
}

static kernels::Normalized forward_cuda(const Tensor& x_, const kernels::Normalization& norm,
                                        const Tensor& residual_, bool relu) {
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
        launch_on_rows<forward_rows<K, adds, T>, K>(
            rows, x.ptr<T>(), pointer<T>(residual), y.ptr<T>(), pointer<uint8_t>(bits),
            Batch<A>(norm.statistics, norm.eps), norm.weight.ptr<A>(), norm.bias.ptr<A>());
      };
      residual.defined() ? start.template operator()<true>() : start.template operator()<false>();
    });
  });
  return {y, bits};
}

static const bool gpu = kernels::channel_statistics.on(Device::cuda, statistics_cuda) &&
                        kernels::update_running.on(Device::cuda, update_running_cuda) &&
                        kernels::batch_norm.on(Device::cuda, forward_cuda);

}  // namespace bellows
