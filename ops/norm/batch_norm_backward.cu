// batch_norm backward on the GPU: both sums of a channel in two launches, dx in a third.
#include "ops/norm/batch_norm.cuh"

namespace bellows {

using namespace batch_norm_cuda;

namespace {

// Also writes each gradient it sums into `kept`, if `kept` is not null.
template <class T, bool adds> struct Gradients {
  using A = Acc<T>;
  Batch<A> batch;
  A *dw, *db;
  Incoming<T, adds> incoming;
  T* kept;

  template <int K, int M> struct Terms {
    static constexpr int kUnroll = 2;
    Incoming<T, adds> incoming;
    T* kept;
    A mean[M];
    __device__ void add(int64_t i, Sums<A> (&sums)[K]) const {
      const AlignedVector<T, K> x = load<K>(incoming.x + i);
      const AlignedVector<T, K> g = incoming.template gradients<K>(i);
      if (kept) bellows::store(kept + i, g);
      for (int k = 0; k < K; ++k)
        sums[k] = sums[k] + Sums<A>{A(g.at[k]), A(g.at[k]) * (A(x.at[k]) - mean[k % M])};
    }
  };
  template <int K, int M> __device__ Terms<K, M> terms(int64_t, int c) const {
    Terms<K, M> terms{incoming, kept, {}};
    for (int m = 0; m < M; ++m) terms.mean[m] = batch.mean[c + m];
    return terms;
  }
  // These sums need no pivot.
  __device__ A pivot(int64_t) const { return 0; }
  __device__ Sums<A> part(const Sums<A>& sums, double, A) const { return sums; }
  __device__ Sums<double> of_group(const Sums<A>& part, double, const Sums<A>&) const {
    return {part.first, part.second};
  }
  __device__ void store(const Sums<double>& sums, const Rows&, int c, const Sums<A>&) const {
    db[c] = A(sums.first);
    dw[c] = A(sums.second * batch.inverse_deviation(c));
  }
};

// Blocks of kThreads threads, three per multiprocessor. Moves x, dy and dx once.
template <int K, class T, class A = Acc<T>>
__global__ void __launch_bounds__(kThreads, 3)
    backward_x(Incoming<T> incoming, T* __restrict__ dx, Batch<A> batch, const A* weight,
               const A* dw, const A* db, A share, Groups groups) {
  const int column = own_column<K>();
  if (column >= groups.rows.length) return;
  Backward<K, A> backward;
  for (int k = 0; k < K; ++k)
    backward.of(k, batch, weight, dw, db, share, (column + k) / groups.rows.inner);
  for_own_rows(groups, column, [&](int64_t i) { backward.put(dx, i, incoming); });
}

}  // namespace

static kernels::Incoming backward_w_cuda(const Tensor& dy_, const Tensor& more_, const Tensor& x_,
                                         const kernels::Normalization& norm, const Tensor& bits,
                                         bool keep, const Tensor& dw, const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_);
  const Tensor more = more_.defined() ? rows.ordered(more_) : more_;
  const Tensor kept = keep || more.defined() ? rows.like(x_) : Tensor();
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    const auto sum = [&]<bool adds>() {
      const Incoming<T, adds> incoming{x.ptr<T>(), dy.ptr<T>(), pointer<T>(more), Bits(bits, x)};
      sum_channels<T>(Gradients<T, adds>{Batch<A>(norm.statistics, norm.eps), dw.ptr<A>(),
                                         db.ptr<A>(), incoming, pointer<T>(kept)},
                      rows);
    };
    more.defined() ? sum.template operator()<true>() : sum.template operator()<false>();
  });
  dw.raise_version();
  db.raise_version();
  return kept.defined() ? kernels::Incoming{kept, {}} : kernels::Incoming{dy, bits};
}

static Tensor backward_x_cuda(const Tensor& dy_, const Tensor& x_,
                              const kernels::Normalization& norm, const Tensor& dw,
                              const Tensor& db, const Tensor& bits) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dx = rows.like(x_);
  if (x.numel() == 0) return dx;
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    in_pieces<T>(rows.length, [&]<int K>() {
      const Incoming<T> incoming{x.ptr<T>(), dy.ptr<T>(), nullptr, Bits(bits, x)};
      launch_on_rows<backward_x<K, T>, K>(
          rows, incoming, dx.ptr<T>(), Batch<A>(norm.statistics, norm.eps), norm.weight.ptr<A>(),
          pointer<A>(dw), pointer<A>(db), A(1 / double(rows.of_a_channel())));
    });
  });
  return dx;
}

static const bool gpu = kernels::batch_norm_backward_w.on(Device::cuda, backward_w_cuda) &&
                        kernels::batch_norm_backward_x.on(Device::cuda, backward_x_cuda);

}  // namespace bellows
