// x is rows of channels * inner elements: NHWC, as (N, C), has one for each pixel and inner = 1,
// NCHW one for each image and inner = H * W. A thread keeps one place in all of its rows, a piece
// of 16 bytes, and with it the numbers of its channels. Sums go by groups of rows, then over those.
#include <bit>
#include "core/copy.h"
#include "core/divisor.h"
#include "core/line.cuh"
#include "core/round.h"
#include "core/shared.cuh"
#include "ops/batch_norm.h"

namespace bellows {

namespace {

// ---- rows and pieces of them: functions of sizes alone

struct Rows {
  explicit Rows(const Tensor& x)
      : nhwc(x.rank() == 4 && format_of(x) == kNHWC),
        by_pixel(nhwc || x.rank() == 2 || x.dim(2) * x.dim(3) == 1),
        inner(by_pixel ? 1 : std::max<int64_t>(x.dim(2) * x.dim(3), 1)),
        channels(int(x.dim(1))),
        length(channels * inner.size),
        count(x.numel() / std::max(length, 1)) {}

  const MemoryFormat& format() const { return nhwc ? kNHWC : kNCHW; }
  Tensor like(const Tensor& x) const {
    return x.rank() == 4 ? Tensor(x.shape(), x.dtype(), x.device(), format()) : empty(x.shape(), x);
  }
  // t in this order, and where a piece of it can be read at once.
  Tensor ordered(const Tensor& t) const {
    const Tensor dense = t.rank() == 4 ? contiguous(t, format()) : contiguous(t);
    if (fit_packs(dense.bytes())) return dense;
    const Tensor moved = like(t);
    kernels::copy(moved, dense);
    return moved;
  }
  int64_t of_a_channel() const { return count * inner.size; }
  // Of a row.
  __device__ int64_t first(int64_t row, int c) const {
    return row * length + int64_t(c) * inner.size;
  }

  bool nhwc, by_pixel;
  Divisor inner;
  int channels, length;
  int64_t count;
};

template <class T, int K> struct alignas(K * sizeof(T)) Piece { T at[K]; };
template <int K, class T> __device__ Piece<T, K> load(const T* from) {
  return *reinterpret_cast<const Piece<T, K>*>(from);
}
template <class T, int K> __device__ void store(T* to, const Piece<T, K>& piece) {
  *reinterpret_cast<Piece<T, K>*>(to) = piece;
}

// fn.operator()<K>(): pieces of 16 bytes where they fill a line of n elements, else of one element.
template <class T, class Fn> void in_pieces(int64_t n, const Fn& fn) {
  if (n % Pack<T>::kSize == 0)
    fn.template operator()<Pack<T>::kSize>();
  else
    fn.template operator()<1>();
}

// use(i, read(i)) for i, i + step, .. below end. Several are read before the first is used, so that
// their loads are under way together.
template <int kAhead, class I, class Read, class Use>
__device__ void read_ahead(I i, I end, I step, const Read& read, const Use& use) {
  for (; i + (kAhead - 1) * step < end; i += kAhead * step) {
    decltype(read(i)) in[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) in[a] = read(i + a * step);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) use(i + a * step, in[a]);
  }
#pragma unroll 1
  for (; i < end; i += step) use(i, read(i));
}

// A byte holds the bits of a piece of a row: y > 0, or NaN.
struct Bits {
  Bits(const Tensor& bits, const Tensor& x)
      : at(bits.defined() ? bits.ptr<uint8_t>() : nullptr),
        log2(at && x.numel() > 0 ? std::countr_zero(uint64_t(x.numel() / bits.numel())) : 0) {}
  // From that element on; without bits all are set.
  __device__ unsigned from(int64_t i) const {
    return at ? unsigned(at[i >> log2]) >> (i & ((1 << log2) - 1)) : ~0u;
  }
  const uint8_t* at;
  int log2;  // of a byte's elements
};

// What backward meets: x, and dy where the bit is set.
template <class T> struct Incoming {
  template <int K> struct Met {
    Piece<T, K> x, dy;
    unsigned bits;
    __device__ Acc<T> gradient(int k) const { return bits >> k & 1 ? Acc<T>(dy.at[k]) : Acc<T>(0); }
  };
  template <int K> __device__ Met<K> read(int64_t i) const {
    return {load<K>(x + i), load<K>(dy + i), bits.from(i)};
  }
  const T *x, *dy;
  Bits bits;
};

// By what x is normalised.
template <class A> struct Batch {
  Batch(const Tensor& statistics, double eps)
      : mean(statistics.ptr<A>()), var(mean + statistics.dim(1)), eps(A(eps)) {}
  __device__ A inverse_deviation(int c) const { return 1 / std::sqrt(var[c] + eps); }
  const A *mean, *var;
  A eps;
};

// ---- two sums over the elements of each channel

template <class A> struct Sums {
  A first = 0, second = 0;
  __device__ Sums operator+(const Sums& o) const { return {first + o.first, second + o.second}; }
};

// As many groups as fill a large GPU, of `least` rows or more.
struct Groups {
  Groups(const Rows& rows, int64_t least, int64_t blocks) : rows(rows) {
    constexpr int64_t kFull = 8 * 132;
    const int64_t most = std::max<int64_t>(rows.count / least, 1);
    const int64_t wanted = std::clamp<int64_t>(kFull / blocks, 1, most);
    each = std::max<int64_t>(ceil_div(rows.count, wanted), 1);
    count = int(ceil_div(rows.count, each));
  }
  __device__ int64_t begin(int group) const { return group * each; }
  __device__ int64_t end(int group) const { return std::min(begin(group) + each, rows.count); }

  Rows rows;
  int64_t each;
  int count;
};

// Sums are taken of d = x - pivot, an element of the group, and of d * d, so that no squares of
// large numbers cancel. In double the groups agree on the pivot of the first: with
// delta = pivot - first pivot, sum (d + delta)^2 = sum d^2 + delta (2 sum d + n delta).
template <class T> struct Statistics {
  using A = Acc<T>;
  const T* x;
  A* out;

  template <int K, int M> struct Terms {  // of pieces whose elements have M channels
    static constexpr int kAhead = 4;
    const T* x;
    A pivot[M] = {};
    __device__ Piece<T, K> read(int64_t i) const { return load<K>(x + i); }
    __device__ void add(const Piece<T, K>& in, Sums<A> (&sums)[K]) const {
      for (int k = 0; k < K; ++k) {
        const A d = A(in.at[k]) - pivot[k % M];
        sums[k] = sums[k] + Sums<A>{d, d * d};
      }
    }
  };
  // `first`: where the group begins in channel c.
  template <int K, int M> __device__ Terms<K, M> terms(int64_t first, int) const {
    Terms<K, M> terms{x};
    for (int m = 0; m < M; ++m) terms.pivot[m] = A(x[first + m]);
    return terms;
  }
  __device__ Sums<double> of_group(Sums<A> sums, const Groups& groups, int g, int c) const {
    const double n = double(groups.end(g) - groups.begin(g)) * groups.rows.inner.size;
    const double delta = double(A(x[groups.rows.first(groups.begin(g), c)])) - pivot(groups, c);
    const double s = sums.first;
    return {s + n * delta, sums.second + delta * (2 * s + n * delta)};
  }
  __device__ void store(Sums<double> sums, const Groups& groups, int c) const {
    const double n = double(groups.rows.count) * groups.rows.inner.size, mean = sums.first / n;
    out[c] = A(pivot(groups, c) + mean);
    out[groups.rows.channels + c] = A(std::max(0.0, sums.second / n - mean * mean));
  }
  __device__ double pivot(const Groups& groups, int c) const {
    return A(x[groups.rows.first(0, c)]);
  }
};

template <class T> struct Gradients {
  using A = Acc<T>;
  Incoming<T> incoming;
  Batch<A> batch;
  A *dw, *db;

  template <int K, int M> struct Terms {
    static constexpr int kAhead = 2;
    Incoming<T> incoming;
    A mean[M] = {};
    __device__ auto read(int64_t i) const { return incoming.template read<K>(i); }
    __device__ void add(const typename Incoming<T>::template Met<K>& met,
                        Sums<A> (&sums)[K]) const {
      for (int k = 0; k < K; ++k) {
        const A g = met.gradient(k);
        sums[k] = sums[k] + Sums<A>{g, g * (A(met.x.at[k]) - mean[k % M])};
      }
    }
  };
  template <int K, int M> __device__ Terms<K, M> terms(int64_t, int c) const {
    Terms<K, M> terms{incoming};
    for (int m = 0; m < M; ++m) terms.mean[m] = batch.mean[c + m];
    return terms;
  }
  __device__ Sums<double> of_group(Sums<A> sums, const Groups&, int, int) const {
    return {sums.first, sums.second};
  }
  __device__ void store(Sums<double> sums, const Groups&, int c) const {
    db[c] = A(sums.first);
    dw[c] = A(sums.second * batch.inverse_deviation(c));
  }
};

// inner = 1. blockIdx.y is the group, whose rows the threads of a column share.
template <int K, class Job, class A = typename Job::A>
__global__ void sum_columns(Job job, Groups groups, Sums<A>* parts) {
  auto* const shared = dynamic_shared<Sums<A>>();  // (blockDim.y, width)
  const int width = blockDim.x * K, begin = blockIdx.x * width, thread = threadIdx.x * K;
  const int c = begin + thread, channels = groups.rows.channels;
  const int64_t first = groups.begin(blockIdx.y);
  Sums<A> sums[K];
  if (c < channels) {
    const auto terms = job.template terms<K, K>(first * channels + c, c);
    read_ahead<terms.kAhead>(
        first + threadIdx.y, groups.end(blockIdx.y), int64_t(blockDim.y),
        [&](int64_t row) { return terms.read(row * channels + c); },
        [&](int64_t, const auto& in) { terms.add(in, sums); });
  }
  for (int k = 0; k < K; ++k) shared[threadIdx.y * width + thread + k] = sums[k];
  __syncthreads();
  const int mine = threadIdx.y * blockDim.x + threadIdx.x;
  if (mine >= width || begin + mine >= channels) return;
  Sums<A> sum = shared[mine];
  for (unsigned y = 1; y < blockDim.y; ++y) sum = sum + shared[y * width + mine];
  parts[int64_t(begin + mine) * groups.count + blockIdx.y] = sum;
}

// A block for each channel, and each group of images: pieces of their planes.
template <int K, class Job, class A = typename Job::A>
__global__ void sum_planes(Job job, Groups groups, Divisor pieces, Sums<A>* parts) {
  const int c = blockIdx.x, g = blockIdx.y;
  const int64_t first = groups.rows.first(groups.begin(g), c);
  const int n = int(groups.end(g) - groups.begin(g)) * pieces.size;
  const auto terms = job.template terms<K, 1>(first, c);
  Sums<A> sums[K];
  const auto read = [&](int i) {
    const int image = i / pieces, piece = i - image * pieces.size;
    return terms.read(first + int64_t(image) * groups.rows.length + piece * K);
  };
  read_ahead<terms.kAhead>(int(threadIdx.x), n, kThreads, read,
                           [&](int, const auto& in) { terms.add(in, sums); });
  for (int k = 1; k < K; ++k) sums[0] = sums[0] + sums[k];
  const Sums<A> sum = block_fold(sums[0], Sums<A>(), Plus(), dynamic_shared<Sums<A>>());
  if (threadIdx.x == 0) parts[int64_t(c) * groups.count + g] = sum;
}

// A warp for each channel.
template <class Job, class A = typename Job::A>
__global__ void fold_groups(Job job, Groups groups, const Sums<A>* parts) {
  const Team team{kWarp};
  const int c = int(team.line());
  if (c >= groups.rows.channels) return;
  Sums<double> sums;
#pragma unroll 4
  for (int g = team.rank(); g < groups.count; g += kWarp)
    sums = sums + job.of_group(parts[int64_t(c) * groups.count + g], groups, g, c);
  sums = warp_fold(sums, Plus());
  if (team.rank() == 0) job.store(sums, groups, c);
}

// ---- what becomes of each element

// use(i, read(i)) for the pieces i .. i + K of this thread: one in each of its rows.
template <class Read, class Use>
__device__ void down_the_rows(const Rows& rows, int column, const Read& read, const Use& use) {
  const auto at = [&](int64_t row) { return row * rows.length + column; };
  read_ahead<2>(
      int64_t(blockIdx.y * blockDim.y + threadIdx.y), rows.count, int64_t(gridDim.y * blockDim.y),
      [&](int64_t row) { return read(at(row)); },
      [&](int64_t row, const auto& in) { use(at(row), in); });
}
template <int K> __device__ int own_column() {
  return int(blockIdx.x * blockDim.x + threadIdx.x) * K;
}

template <int K, class T, class A = Acc<T>>
__global__ void forward(const T* __restrict__ x, const T* __restrict__ residual, T* __restrict__ y,
                        uint8_t* __restrict__ bits, Batch<A> batch, const A* weight, const A* bias,
                        Rows rows) {
  const int column = own_column<K>();
  if (column >= rows.length) return;
  A mean[K], scale[K], shift[K];
  for (int k = 0; k < K; ++k) {
    const int c = (column + k) / rows.inner;
    mean[k] = batch.mean[c], scale[k] = weight[c] * batch.inverse_deviation(c), shift[k] = bias[c];
  }
  struct Met {
    Piece<T, K> x, residual;
  };
  const auto read = [&](int64_t i) {
    return Met{load<K>(x + i), residual ? load<K>(residual + i) : Piece<T, K>()};
  };
  down_the_rows(rows, column, read, [&](int64_t i, const Met& met) {
    Piece<T, K> out;
    unsigned on = 0;
    for (int k = 0; k < K; ++k) {
      const A v = (A(met.x.at[k]) - mean[k]) * scale[k] + shift[k] + A(met.residual.at[k]);
      const bool off = bits && v <= A(0);  // of NaN: on
      on |= unsigned(!off) << k;
      out.at[k] = T(off ? A(0) : v);
    }
    store(y + i, out);
    if (bits) bits[i / K] = uint8_t(on);
  });
}

// dx = scale * dy - slope * (x - mean) - shift. Three blocks to a multiprocessor.
template <int K, class T, class A = Acc<T>>
__global__ void __launch_bounds__(kThreads, 3)
    backward_x(Incoming<T> incoming, T* __restrict__ dx, T* __restrict__ dresidual, Batch<A> batch,
               const A* weight, const A* dw, const A* db, A share, Rows rows) {
  const int column = own_column<K>();
  if (column >= rows.length) return;
  A mean[K], scale[K], slope[K], shift[K];
  for (int k = 0; k < K; ++k) {
    const int c = (column + k) / rows.inner;
    const A inverse = batch.inverse_deviation(c);
    mean[k] = batch.mean[c], scale[k] = weight[c] * inverse;
    slope[k] = dw ? scale[k] * inverse * dw[c] * share : A(0);
    shift[k] = db ? scale[k] * db[c] * share : A(0);
  }
  const auto read = [&](int64_t i) { return incoming.template read<K>(i); };
  down_the_rows(rows, column, read, [&](int64_t i, const auto& met) {
    Piece<T, K> out, passed;
    for (int k = 0; k < K; ++k) {
      const A g = met.gradient(k);
      passed.at[k] = T(g);
      out.at[k] = T(scale[k] * g - slope[k] * (A(met.x.at[k]) - mean[k]) - shift[k]);
    }
    store(dx + i, out);
    if (dresidual) store(dresidual + i, passed);
  });
}

template <class A, class R>
__global__ void move_running(R* mean, R* var, int64_t* batches, const A* statistics, int channels,
                             double momentum, double unbiased) {
  if (batches && thread_index() == 0) ++*batches;
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    mean[c] = R((1 - momentum) * mean[c] + momentum * statistics[c]);
    var[c] = R((1 - momentum) * var[c] + momentum * unbiased * statistics[channels + c]);
  }
}

// ---- the host

template <class T> T* pointer(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

// Blocks for a row of pieces, each as wide as they are, up to a warp, and as high as makes a block.
struct Tiles {
  explicit Tiles(int64_t pieces) {
    const unsigned wide = std::bit_ceil(unsigned(std::min<int64_t>(pieces, kWarp)));
    threads = dim3(wide, kThreads / wide);
    count = unsigned(ceil_div(pieces, wide));
  }
  dim3 threads;
  unsigned count;
};

template <class Job, class Sum> void sum_groups(const Job& job, const Groups& groups, Sum sum) {
  using Part = Sums<typename Job::A>;
  const int channels = groups.rows.channels;
  const Tensor parts({int64_t(groups.count) * channels * int64_t(sizeof(Part))}, DType::u8,
                     Device::cuda);
  Part* const parts_ = reinterpret_cast<Part*>(parts.bytes());
  if (groups.count > 0) sum(parts_);
  launch(fold_groups<Job>, grid_of_lines(channels, {kWarp}), job, groups, parts_);
}
template <int K, class Job> void sum_by_columns(const Job& job, const Rows& rows) {
  const Tiles tiles(rows.channels / K);
  const Groups groups(rows, 8 * tiles.threads.y, tiles.count);
  sum_groups(job, groups, [&](auto* parts) {
    const Grid grid{dim3(tiles.count, groups.count), tiles.threads, kThreads * K * sizeof(*parts)};
    launch(sum_columns<K, Job>, grid, job, groups, parts);
  });
}
template <int K, class Job> void sum_by_planes(const Job& job, const Rows& rows) {
  const int least = (4096 + rows.inner.size - 1) / rows.inner.size;
  const Groups groups(rows, least, rows.channels);
  sum_groups(job, groups, [&](auto* parts) {
    const Grid grid{dim3(rows.channels, groups.count), kThreads, kWarp * sizeof(*parts)};
    launch(sum_planes<K, Job>, grid, job, groups, Divisor(rows.inner.size / K), parts);
  });
}
template <class T, class Job> void sum_channels(const Job& job, const Rows& rows) {
  if (rows.channels == 0) return;
  in_pieces<T>(rows.by_pixel ? rows.channels : rows.inner.size, [&]<int K>() {
    rows.by_pixel ? sum_by_columns<K>(job, rows) : sum_by_planes<K>(job, rows);
  });
}

// Each thread has a few rows at least, which pay for the numbers of its channels.
template <int K> Grid grid_of_rows(const Rows& rows) {
  const Tiles tiles(rows.length / K);
  const Groups groups(rows, 4 * tiles.threads.y, tiles.count);
  return {dim3(tiles.count, groups.count), tiles.threads};
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
      launch(forward<K, T>, grid_of_rows<K>(rows), x.ptr<T>(), pointer<T>(residual), y.ptr<T>(),
             pointer<uint8_t>(bits), Batch<A>(statistics, eps), weight.ptr<A>(), bias.ptr<A>(),
             rows);
    });
  });
  return {y, bits};
}

static void backward_w_cuda(const Tensor& dy_, const Tensor& x_, const Tensor& statistics,
                            const Tensor& bits, double eps, const Tensor& dw, const Tensor& db) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_);
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    const Incoming<T> incoming{x.ptr<T>(), dy.ptr<T>(), Bits(bits, x)};
    sum_channels<T>(Gradients<T>{incoming, Batch<A>(statistics, eps), dw.ptr<A>(), db.ptr<A>()},
                    rows);
  });
  dw.raise_version();
  db.raise_version();
}

static kernels::NormalizedGrads backward_x_cuda(const Tensor& dy_, const Tensor& x_,
                                                const Tensor& statistics, const Tensor& weight,
                                                const Tensor& dw, const Tensor& db,
                                                const Tensor& bits, double eps, bool residual) {
  const Rows rows(x_);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dx = rows.like(x_);
  const Tensor dresidual = residual ? rows.like(x_) : Tensor();
  if (x.numel() == 0) return {dx, dresidual};
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    in_pieces<T>(rows.length, [&]<int K>() {
      const Incoming<T> incoming{x.ptr<T>(), dy.ptr<T>(), Bits(bits, x)};
      launch(backward_x<K, T>, grid_of_rows<K>(rows), incoming, dx.ptr<T>(), pointer<T>(dresidual),
             Batch<A>(statistics, eps), weight.ptr<A>(), pointer<A>(dw), pointer<A>(db),
             A(1 / double(rows.of_a_channel())), rows);
    });
  });
  return {dx, dresidual};
}

static const bool gpu = kernels::channel_statistics.on(Device::cuda, statistics_cuda) &&
                        kernels::update_running.on(Device::cuda, update_running_cuda) &&
                        kernels::batch_norm.on(Device::cuda, forward_cuda) &&
                        kernels::batch_norm_backward_w.on(Device::cuda, backward_w_cuda) &&
                        kernels::batch_norm_backward_x.on(Device::cuda, backward_x_cuda) &&
                        kernels::batch_norm_training.on(Device::cuda, kernels::batch_norm_in_steps);

}  // namespace bellows
