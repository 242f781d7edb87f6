// Training passes of batch_norm on the GPU that read their inputs once, in one launch each. A block
// keeps a slice of the channels, for all rows, in shared memory, sums it up and continues from
// there. If no slice fits, the kernels that read x twice run instead
// (ops/norm/batch_norm_streaming.cuh).
#include "core/device/reduce.cuh"
#include "core/device/shared.cuh"
#include "ops/norm/batch_norm.cuh"

namespace bellows {

using namespace batch_norm_cuda;

namespace {

constexpr int kBlock = 512, kWarps = kBlock / kWarp;

// ---- slice of a block

// Slices of 64, 32 or 16 bytes of each row: the widest that fit in shared memory and are enough for
// a block per multiprocessor. With up to kFewRows rows, the narrowest slices run with fewer blocks
// too: they take about 2 us (a row per cycle, twice), no more than the launches that they save.
struct Slices {
  // keeps: number of tensors of x's size that stay in shared memory.
  Slices(const Rows& rows, DType dtype, int keeps) {
    constexpr int64_t kFewRows = 2048, kNarrowest = 16;
    const cuda::Limits& gpu = cuda::limits();
    if (!rows.by_pixel || rows.count == 0) return;
    for (int64_t wide = 64; wide >= kNarrowest && count == 0; wide /= 2) {
      const int64_t kept = keeps * rows.count * wide;
      const int64_t slices = ceil_div(rows.channels * size_of(dtype), wide);
      const bool enough =
          slices >= gpu.multiprocessors || (wide == kNarrowest && rows.count <= kFewRows);
      if (!enough || kept + fold_bytes(wide, dtype) > gpu.shared_bytes) continue;
      count = slices, bytes = wide, shared = kept + fold_bytes(wide, dtype);
    }
  }
  explicit operator bool() const { return count > 0; }
  // For threads with K channels each.
  template <int K> Grid grid(DType dtype) const {
    const unsigned width = unsigned(bytes / (K * size_of(dtype)));
    return {dim3(unsigned(count)), dim3(width, kBlock / width), size_t(shared)};
  }

  int64_t count = 0, bytes = 0, shared = 0;  // slices; bytes per row; shared memory per block

 private:
  static int64_t fold_bytes(int64_t wide, DType dtype) {  // one sum per channel and warp
    return wide / size_of(dtype) * kWarps * 2 * size_of(precise(dtype));
  }
};

template <auto kernel, class... Args> void launch_on_chip(const Grid& grid, const Args&... args) {
  [[maybe_unused]] static const bool allowed = [] {
    CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    cuda::limits().shared_bytes));
    return true;
  }();
  launch(kernel, grid, args...);
}

// ---- device code of a block

// blockDim is (width, height). A thread has K channels, in every height-th row.
template <class T, int K> struct Slice {
  using A = Acc<T>;
  using Kept = AlignedVector<T, K>;
  __device__ explicit Slice(const Rows& rows)
      : rows(rows),
        column(int(blockIdx.x * blockDim.x + threadIdx.x) * K),
        inside(column < rows.channels) {}

  __device__ int64_t at(int row) const { return int64_t(row) * rows.length + column; }
  __device__ int place(int row) const { return row * int(blockDim.x) + int(threadIdx.x); }
  // The i-th tensor in shared memory.
  __device__ Kept* kept(int i) const {
    return dynamic_shared<Kept>() + i * int(rows.count) * int(blockDim.x);
  }

  // Rows of a warp: side_by_side() rows starting at first(warp), and so on every `height` rows.
  __device__ int side_by_side() const { return kWarp / int(blockDim.x); }
  __device__ int first(int warp) const { return warp * side_by_side(); }
  __device__ int rows_of(int warp) const {
    const int height = blockDim.y, all = int(rows.count), beside = side_by_side();
    return all / height * beside + std::clamp(all % height - first(warp), 0, beside);
  }

  // Calls use(row, read(i)) for the rows of this thread; i is the row's offset in the tensor.
  template <int kAhead, class Read, class Use>
  __device__ void visit(const Read& read, const Use& use) const {
    if (!inside) return;
    read_ahead<kAhead>(
        int(threadIdx.y), int(rows.count), int(blockDim.y), [&](int row) { return read(at(row)); },
        [&](int row, const auto& in) { use(row, in); });
  }

  // Sums up over the block and calls store(c, sum) in one thread for each channel of the slice.
  // of_warp(sums, warp, i) converts a warp's sums of the slice's channel i to the common pivot. A
  // barrier separates earlier writes to shared memory from of_warp.
  template <class OfWarp, class Store>
  __device__ void fold(Sums<A> (&sums)[K], Sums<A>* scratch, const OfWarp& of_warp,
                       const Store& store) const;

  const Rows& rows;
  const int column;
  const bool inside;
};

// Lanes `width` apart have sums of the same K channels. In each step two of them split these: one
// keeps the lower half, the other one the upper half. Once a lane has a single channel, the
// remaining steps add up lanes with the same channel.
template <class T, int K>
template <class OfWarp, class Store>
__device__ void Slice<T, K>::fold(Sums<A> (&sums)[K], Sums<A>* scratch, const OfWarp& of_warp,
                                  const Store& store) const {
  const int width = blockDim.x, thread = int(threadIdx.y) * width + int(threadIdx.x);
  int place = 0, left = K;
  bool is_leader = true;
#pragma unroll
  for (int bit = kWarp / 2; bit > 0; bit /= 2) {
    if (bit < width) break;
    const bool upper = thread & bit;
    if (left == 1) {
      sums[0] = sums[0] + shuffle_xor(sums[0], bit);
      is_leader = is_leader && !upper;
      continue;
    }
    left /= 2;
    place += upper ? left : 0;
#pragma unroll
    for (int k = 0; k < left; ++k) {
      const Sums<A> mine = upper ? sums[left + k] : sums[k];
      sums[k] = mine + shuffle_xor(upper ? sums[k] : sums[left + k], bit);
    }
  }
  if (is_leader) scratch[(int(threadIdx.x) * K + place) * kWarps + thread / kWarp] = sums[0];
  __syncthreads();
  // One thread per channel and warp: a slice has at most 32 channels (64 bytes), a block 16 warps.
  const int i = thread / kWarps, warp = thread % kWarps;
  const int c = int(blockIdx.x) * width * K + i;
  const bool some = i < width * K && c < rows.channels;
  Sums<double> sum = some ? of_warp(scratch[thread], warp, i) : Sums<double>();
  for (int bit = kWarps / 2; bit > 0; bit /= 2) sum = sum + shuffle_xor(sum, bit);
  if (some && warp == 0) store(c, sum);
}

// ---- kernels: one block of kBlock threads per slice; shared memory: the slice, scratch for fold

// The pivot is the first element of each warp. In double, all warps are converted to the first
// one's. Keeps x in shared memory; reads x and residual once and writes y once.
template <int K, bool adds, class T, class A = Acc<T>>
__global__ void __launch_bounds__(kBlock, 1)
    forward_on_chip(const T* __restrict__ x, const T* __restrict__ residual, T* __restrict__ y,
                    uint8_t* __restrict__ bits, A* statistics, Running running, Batch<A> batch,
                    const A* weight, const A* bias, Rows rows) {
  await_predecessor();
  const Slice<T, K> slice(rows);
  AlignedVector<T, K>* const kept = slice.kept(0);
  const int warp = int(threadIdx.y * blockDim.x + threadIdx.x) / kWarp;
  AlignedVector<T, K> pivot{};
  if (slice.inside) pivot = load<K>(x + slice.at(slice.rows_of(warp) ? slice.first(warp) : 0));
  Sums<A> sums[K];
  slice.template visit<4>([&](int64_t i) { return load<K>(x + i); },
                          [&](int row, const AlignedVector<T, K>& in) {
                            kept[slice.place(row)] = in;
                            for (int k = 0; k < K; ++k) {
                              const A d = A(in.at[k]) - A(pivot.at[k]);
                              sums[k] = sums[k] + Sums<A>{d, d * d};
                            }
                          });
  const auto element = [&](int row, int i) {
    return double(A(kept[row * int(blockDim.x) + i / K].at[i % K]));
  };
  slice.fold(
      sums, reinterpret_cast<Sums<A>*>(slice.kept(1)),
      [&](const Sums<A>& sums, int warp, int i) {
        const int n = slice.rows_of(warp);
        if (n == 0) return Sums<double>();
        return by_pivot_below(sums, n, element(slice.first(warp), i) - element(0, i));
      },
      [&](int c, const Sums<double>& sums) {
        const int i = c - int(blockIdx.x * blockDim.x) * K;
        store_statistics(statistics, rows.channels, c, sums, double(rows.count), element(0, i),
                         running);
      });
  __syncthreads();
  if (!slice.inside) return;
  Forward<K, A> forward;
  for (int k = 0; k < K; ++k) forward.of(k, batch, weight, bias, slice.column + k);
  if constexpr (adds)
    slice.template visit<4>(
        [&](int64_t i) { return load<K>(residual + i); },
        [&](int row, const AlignedVector<T, K>& added) {
          forward.put(y, bits, slice.at(row), Read<true, K, T>{kept[slice.place(row)], added});
        });
  else
    for (int row = threadIdx.y; row < rows.count; row += blockDim.y)
      forward.put(y, bits, slice.at(row), Read<false, K, T>{kept[slice.place(row)]});
}

// Keeps x and its gradient in shared memory; reads both once and writes dx and dresidual once.
template <int K, class T, bool adds, class A = Acc<T>>
__global__ void __launch_bounds__(kBlock, 1)
    backward_on_chip(Incoming<T, adds> incoming, T* __restrict__ dx, T* __restrict__ dresidual,
                     Batch<A> batch, const A* weight, A* dw, A* db, A share, Rows rows) {
  await_predecessor();
  const Slice<T, K> slice(rows);
  AlignedVector<T, K>*const kept_x = slice.kept(0), *const kept_dy = slice.kept(1);
  A mean[K] = {};
  if (slice.inside)
    for (int k = 0; k < K; ++k) mean[k] = batch.mean[slice.column + k];
  Sums<A> sums[K];
  slice.template visit<2>([&](int64_t i) { return incoming.template read<K>(i); },
                          [&](int row, const auto& met) {
                            const AlignedVector<T, K> gradient = met.gradient();
                            for (int k = 0; k < K; ++k) {
                              const A g = A(gradient.at[k]);
                              sums[k] = sums[k] + Sums<A>{g, g * (A(met.x.at[k]) - mean[k])};
                            }
                            kept_x[slice.place(row)] = met.x, kept_dy[slice.place(row)] = gradient;
                            if (dresidual) store(dresidual + slice.at(row), gradient);
                          });
  slice.fold(
      sums, reinterpret_cast<Sums<A>*>(slice.kept(2)),
      [](const Sums<A>& sums, int, int) {
        return Sums<double>{sums.first, sums.second};
      },
      [&](int c, const Sums<double>& sums) { store_gradients(dw, db, c, sums, batch); });
  __syncthreads();
  if (!slice.inside) return;
  Backward<K, A> backward;
  for (int k = 0; k < K; ++k) backward.of(k, batch, weight, dw, db, share, slice.column + k);
  for (int row = threadIdx.y; row < rows.count; row += blockDim.y) {
    backward.put(dx, slice.at(row), kept_x[slice.place(row)], kept_dy[slice.place(row)]);
  }
}

}  // namespace

// ---- host code

static kernels::NormalizedGrads backward_cuda(const Tensor& dy_, const Tensor& more_,
                                              const Tensor& x_, const kernels::Normalization& norm,
                                              const Tensor& bits, bool residual, const Tensor& dw,
                                              const Tensor& db, Slot& slot) {
  const Rows rows(x_);
  const Slices slices(rows, x_.dtype(), 2);
  if (!slices)
    return kernels::batch_norm_backward_in_steps(dy_, more_, x_, norm, bits, residual, dw, db,
                                                 slot);
  const Tensor x = rows.ordered(x_), dy = rows.ordered(dy_), dx = rows.like(x_);
  const Tensor more = more_.defined() ? rows.ordered(more_) : more_;
  const Tensor dresidual = residual ? rows.like(x_) : Tensor();
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    in_pieces<T>(rows.length, [&]<int K>() {
      with_added(more, [&]<bool adds>() {
        launch_on_chip<backward_on_chip<K, T, adds>>(
            slices.grid<K>(x.dtype()),
            Incoming<T, adds>{x.ptr<T>(), dy.ptr<T>(), pointer<T>(more), Bits(bits, x)},
            dx.ptr<T>(), pointer<T>(dresidual), Batch<A>(norm.statistics, norm.eps),
            norm.weight.ptr<A>(), dw.ptr<A>(), db.ptr<A>(), A(1 / double(rows.count)), rows);
      });
    });
  });
  dw.raise_version();
  db.raise_version();
  return {dx, dresidual};
}

static kernels::BatchNormPass training_cuda(const Tensor& x_, const Tensor& weight,
                                            const Tensor& bias, const Tensor& residual_, bool relu,
                                            double eps, const RunningUpdate& running, Slot& slot) {
  const Rows rows(x_);
  const Slices slices(rows, x_.dtype(), 1);
  if (!slices)
    return kernels::batch_norm_in_steps(x_, weight, bias, residual_, relu, eps, running, slot);
  const Tensor x = rows.ordered(x_), y = rows.like(x_);
  const Tensor residual = residual_.defined() ? rows.ordered(residual_) : residual_;
  const Tensor statistics({2, rows.channels}, precise(x.dtype()), x.device());
  Tensor bits;
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    in_pieces<T>(rows.length, [&]<int K>() {
      if (relu) bits = Tensor({x.numel() / K}, DType::u8, x.device());
      with_added(residual, [&]<bool adds>() {
        launch_on_chip<forward_on_chip<K, adds, T>>(
            slices.grid<K>(x.dtype()), x.ptr<T>(), pointer<T>(residual), y.ptr<T>(),
            pointer<uint8_t>(bits), statistics.ptr<A>(), Running(running),
            Batch<A>(statistics, eps), weight.ptr<A>(), bias.ptr<A>(), rows);
      });
    });
  });
  return {y, bits, statistics, backward_cuda};
}

static bool fits_on_chip(const Tensor& x, const Tensor&, const Tensor&, const Tensor&, bool, double,
                         const RunningUpdate&, Slot&) {
  return bool(Slices(Rows(x), x.dtype(), 1));
}

static bool streams(const Tensor& x) {
  const std::string_view forced = kernel_options().algorithm ? kernel_options().algorithm : "";
  return forced == "streaming" || (forced.empty() && !Slices(Rows(x), x.dtype(), 1));
}

static const bool gpu = kernels::streams_norms.on(Device::cuda, streams) &&
                        kernels::batch_norm_training.on(Device::cuda, training_cuda) &&
                        kernels::batch_norm_training.algorithm_on(
                            Device::cuda, "streaming", fits_on_chip, kernels::batch_norm_in_steps);

}  // namespace bellows
