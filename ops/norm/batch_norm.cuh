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

// ---- elementwise formulas for a piece, with the parameters of its channels

// y = (x - mean) * scale + shift + residual, then gelu, or relu if there are bits.
template <int K, class A> struct Forward {
  A mean[K], scale[K], shift[K];

  __device__ void of(int k, const Batch<A>& batch, const A* weight, const A* bias, int c) {
    mean[k] = batch.mean[c], scale[k] = weight[c] * batch.inverse_deviation(c), shift[k] = bias[c];
  }
  template <class T> __device__ A normalized(T x, int k) const {
    return (A(x) - mean[k]) * scale[k] + shift[k];
  }
  template <bool adds, bool gelu, class T>
  __device__ void put(const T* x, const T* residual, T* y, uint8_t* bits, int64_t i) const {
    const AlignedVector<T, K> in = load<K>(x + i);
    AlignedVector<T, K> added;
    if constexpr (adds) added = load<K>(residual + i);
    A out[K];
    unsigned on = 0;
    for (int k = 0; k < K; ++k) {
      A v = normalized(in.at[k], k);
      if constexpr (adds) v += A(added.at[k]);
      const bool off = bits && v <= A(0);  // false for NaN
      on |= unsigned(!off) << k;
      out[k] = off ? A(0) : gelu ? functors::Gelu::value(v) : v;
    }
    store(y + i, packed<T>(out));
    if (bits) bits[i / K] = uint8_t(on);
  }
};

// What backward reads.
template <class T, bool adds = false> struct Incoming {
  // Gradients of elements [i, i + K): dy where the bit is set, else 0. If `adds`, dy is the rounded
  // sum of two gradients.
  template <int K> __device__ AlignedVector<T, K> gradients(int64_t i) const {
    AlignedVector<T, K> g = load<K>(dy + i), other;
    if constexpr (adds) other = load<K>(more + i);
    const unsigned on = bits.from(i);
    for (int k = 0; k < K; ++k) {
      if constexpr (adds) g.at[k] = T(Acc<T>(g.at[k]) + Acc<T>(other.at[k]));
      if (!(on >> k & 1)) g.at[k] = T();
    }
    return g;
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
  template <class T> __device__ void put(T* dx, int64_t i, const Incoming<T>& incoming) const {
    const AlignedVector<T, K> x = load<K>(incoming.x + i), g = incoming.template gradients<K>(i);
    A out[K];
    for (int k = 0; k < K; ++k)
      out[k] = scale[k] * A(g.at[k]) - slope[k] * (A(x.at[k]) - mean[k]) - shift[k];
    store(dx + i, packed<T>(out));
  }
};

template <class T> T* pointer(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

}  // namespace bellows::batch_norm_cuda
