// Parts that the batch_norm kernels on the GPU share.
//
// x is a list of rows of channels * inner elements. NHWC and (N, C) have one row per pixel and
// inner = 1; NCHW has one row per image and inner = H * W. A thread handles the same piece of 16
// bytes in several rows, so it loads the parameters of its channels only once.
#pragma once
#include <bit>
#include "core/base/divisor.h"
#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"
#include "core/tensor/pieces.cuh"
#include "ops/base/functors.h"
#include "ops/norm/batch_norm.h"

namespace bellows::batch_norm_cuda {

// ---- rows and their pieces

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
  // Returns t in this memory format, aligned for reads of whole pieces.
  Tensor ordered(const Tensor& t) const {
    const Tensor dense = t.rank() == 4 ? contiguous(t, format()) : contiguous(t);
    if (fit_packs(dense.bytes())) return dense;
    const Tensor moved = like(t);
    kernels::copy(moved, dense);
    return moved;
  }
  // Elements per channel.
  int64_t of_a_channel() const { return count * inner.size; }
  // Offset of a row's first element in channel c.
  __device__ int64_t first(int64_t row, int c) const {
    return row * length + int64_t(c) * inner.size;
  }

  bool nhwc, by_pixel;
  Divisor inner;
  int channels, length;
  int64_t count;
};

// Calls use(i, read(i)) for i, i + step, ... below end. Reads kAhead values before it uses the
// first, so that their loads overlap.
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

// Relu bits: each byte belongs to one piece, and bit k is set if y > 0 or NaN.
struct Bits {
  Bits(const Tensor& bits, const Tensor& x)
      : at(bits.defined() ? bits.ptr<uint8_t>() : nullptr),
        log2(at && x.numel() > 0 ? std::countr_zero(uint64_t(x.numel() / bits.numel())) : 0) {}
  // Bits from element i on; all are set if there is no tensor of bits.
  __device__ unsigned from(int64_t i) const {
    return at ? unsigned(at[i >> log2]) >> (i & ((1 << log2) - 1)) : ~0u;
  }
  const uint8_t* at;
  int log2;  // log2 of the elements per byte
};

// Statistics that x is normalized by.
template <class A> struct Batch {
  Batch(const Tensor& statistics, double eps)
      : mean(statistics.ptr<A>()), var(mean + statistics.dim(1)), eps(A(eps)) {}
  __device__ A inverse_deviation(int c) const { return 1 / std::sqrt(var[c] + eps); }
  const A *mean, *var;
  A eps;
};

// ---- two sums over the elements of each channel

// Forward: sums of d = x - pivot and of d * d. The pivot avoids cancellation between large squares.
// Between launches: mean of a group, and sum of the squared distances from it. Backward: sums of dy
// and of dy * (x - mean).
template <class A> struct Sums {
  A first = 0, second = 0;
  __device__ Sums operator+(const Sums& o) const { return {first + o.first, second + o.second}; }
};

// Converts the sums of n elements to a pivot that is smaller by `delta`: sum (d + delta)^2 = sum
// d^2 + delta (2 sum d + n delta).
template <class A>
__device__ Sums<double> by_pivot_below(const Sums<A>& sums, double n, double delta) {
  const double s = sums.first;
  return {s + n * delta, sums.second + delta * (2 * s + n * delta)};
}

// Running statistics on the device; `mean` is null if there is nothing to update.
struct Running {
  explicit Running(const RunningUpdate& r)
      : mean(r.mean.defined() ? r.mean.bytes() : nullptr),
        var(mean ? r.var.bytes() : nullptr),
        batches(r.batches.defined() ? r.batches.ptr<int64_t>() : nullptr),
        in_double(mean && r.mean.dtype() == DType::f64),
        momentum(r.momentum),
        unbiased(r.unbiased) {}
  // The thread of channel 0 counts the batch.
  __device__ void update(int c, double batch_mean, double batch_var) const {
    if (mean)
      in_double ? update_in<double>(c, batch_mean, batch_var)
                : update_in<float>(c, batch_mean, batch_var);
    if (batches && c == 0) ++*batches;
  }
  template <class R> __device__ void update_in(int c, double batch_mean, double batch_var) const {
    R &m = static_cast<R*>(mean)[c], &v = static_cast<R*>(var)[c];
    m = R(kernels::moved(m, batch_mean, momentum));
    v = R(kernels::moved(v, batch_var, momentum, unbiased));
  }
  void *mean, *var;
  int64_t* batches;
  bool in_double;
  double momentum, unbiased;
};

// Writes mean and biased variance of channel c, from the sums over n elements.
template <class A>
__device__ void store_statistics(A* out, int channels, int c, const Sums<double>& sums, double n,
                                 double pivot, const Running& running) {
  const double mean = sums.first / n;
  const A stored = A(pivot + mean), var = A(std::max(0.0, sums.second / n - mean * mean));
  out[c] = stored, out[channels + c] = var;
  running.update(c, stored, var);
}
template <class A>
__device__ void store_gradients(A* dw, A* db, int c, const Sums<double>& sums,
                                const Batch<A>& batch) {
  db[c] = A(sums.first);
  dw[c] = A(sums.second * batch.inverse_deviation(c));
}

// ---- elementwise formulas for a piece, with the parameters of its channels

// Pieces that forward reads. Without a residual there is no such member, and nothing to add.
template <bool adds, int K, class T> struct Read {
  AlignedVector<T, K> x, residual;
  __device__ Acc<T> added_to(Acc<T> v, int k) const { return v + Acc<T>(residual.at[k]); }
};
template <int K, class T> struct Read<false, K, T> {
  AlignedVector<T, K> x;
  __device__ Acc<T> added_to(Acc<T> v, int) const { return v; }
};
template <bool adds, int K, class T>
__device__ Read<adds, K, T> read_forward(const T* x, const T* residual, int64_t i) {
  if constexpr (adds)
    return {load<K>(x + i), load<K>(residual + i)};
  else
    return {load<K>(x + i)};
}
// Calls fn.operator()<adds>(): true if there is a tensor to add.
template <class Fn> void with_added(const Tensor& added, const Fn& fn) {
  added.defined() ? fn.template operator()<true>() : fn.template operator()<false>();
}

// y = (x - mean) * scale + shift + residual, then gelu, or relu if there are bits.
template <int K, class A> struct Forward {
  A mean[K], scale[K], shift[K];

  __device__ void of(int k, const Batch<A>& batch, const A* weight, const A* bias, int c) {
    mean[k] = batch.mean[c], scale[k] = weight[c] * batch.inverse_deviation(c), shift[k] = bias[c];
  }
  template <class T> __device__ A normalized(T x, int k) const {
    return (A(x) - mean[k]) * scale[k] + shift[k];
  }
  template <bool gelu = false, bool adds, class T>
  __device__ void put(T* y, uint8_t* bits, int64_t i, const Read<adds, K, T>& in) const {
    A out[K];
    unsigned on = 0;
    for (int k = 0; k < K; ++k) {
      const A v = in.added_to(normalized(in.x.at[k], k), k);
      const bool off = bits && v <= A(0);  // false for NaN
      on |= unsigned(!off) << k;
      out[k] = off ? A(0) : gelu ? functors::Gelu::value(v) : v;
    }
    store(y + i, packed<T>(out));
    if (bits) bits[i / K] = uint8_t(on);
  }
};

// Pieces that backward reads, and their gradient g: dy where the bit is set, else 0. If `adds`, dy
// is the rounded sum of two gradients.
template <bool adds, int K, class T> struct Met {
  AlignedVector<T, K> x, dy, more;
  unsigned bits;
  __device__ AlignedVector<T, K> gradient() const {
    Acc<T> sum[K];
    for (int k = 0; k < K; ++k) sum[k] = bits >> k & 1 ? Acc<T>(dy.at[k]) + Acc<T>(more.at[k]) : 0;
    return packed<T>(sum);
  }
};
template <int K, class T> struct Met<false, K, T> {
  AlignedVector<T, K> x, dy;
  unsigned bits;
  __device__ AlignedVector<T, K> gradient() const {
    AlignedVector<T, K> g;
    for (int k = 0; k < K; ++k) g.at[k] = bits >> k & 1 ? dy.at[k] : T();
    return g;
  }
};
template <class T, bool adds = false> struct Incoming {
  template <int K> __device__ Met<adds, K, T> read(int64_t i) const {
    if constexpr (adds)
      return {load<K>(x + i), load<K>(dy + i), load<K>(more + i), bits.from(i)};
    else
      return {load<K>(x + i), load<K>(dy + i), bits.from(i)};
  }
  const T *x, *dy, *more;
  Bits bits;
};

// dx = scale * g - slope * (x - mean) - shift
template <int K, class A> struct Backward {
  A mean[K], scale[K], slope[K], shift[K];

  // share: 1 / elements per channel.
  __device__ void of(int k, const Batch<A>& batch, const A* weight, const A* dw, const A* db,
                     A share, int c) {
    const A inverse = batch.inverse_deviation(c);
    mean[k] = batch.mean[c], scale[k] = weight[c] * inverse;
    slope[k] = dw ? scale[k] * inverse * dw[c] * share : A(0);
    shift[k] = db ? scale[k] * db[c] * share : A(0);
  }
  template <class T>
  __device__ void put(T* dx, int64_t i, const AlignedVector<T, K>& x,
                      const AlignedVector<T, K>& g) const {
    A out[K];
    for (int k = 0; k < K; ++k)
      out[k] = scale[k] * A(g.at[k]) - slope[k] * (A(x.at[k]) - mean[k]) - shift[k];
    store(dx + i, packed<T>(out));
  }
};

template <class T> T* pointer(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

}  // namespace bellows::batch_norm_cuda
