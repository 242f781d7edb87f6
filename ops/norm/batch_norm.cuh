// What the kernels of batch_norm share on the GPU.
//
// x is rows of channels * inner elements: NHWC, as (N, C), has one for each pixel and inner = 1,
// NCHW one for each image and inner = H * W. A thread keeps one place in all of its rows, a piece
// of 16 bytes, and with it the numbers of its channels.
#pragma once
#include <bit>
#include "core/base/divisor.h"
#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"
#include "ops/norm/batch_norm.h"

namespace bellows::batch_norm_cuda {

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

// By what x is normalised.
template <class A> struct Batch {
  Batch(const Tensor& statistics, double eps)
      : mean(statistics.ptr<A>()), var(mean + statistics.dim(1)), eps(A(eps)) {}
  __device__ A inverse_deviation(int c) const { return 1 / std::sqrt(var[c] + eps); }
  const A *mean, *var;
  A eps;
};

// ---- two sums over the elements of each channel

// Forward: of d = x - pivot and of d * d, so that no squares of large numbers cancel. Backward: of
// dy and of dy * (x - mean).
template <class A> struct Sums {
  A first = 0, second = 0;
  __device__ Sums operator+(const Sums& o) const { return {first + o.first, second + o.second}; }
};

// Sums of n elements by their pivot, as they are by another one that is `delta` less:
// sum (d + delta)^2 = sum d^2 + delta (2 sum d + n delta).
template <class A>
__device__ Sums<double> by_pivot_below(const Sums<A>& sums, double n, double delta) {
  const double s = sums.first;
  return {s + n * delta, sums.second + delta * (2 * s + n * delta)};
}
// Mean and variance of channel c, of n elements.
template <class A>
__device__ void store_statistics(A* out, int channels, int c, const Sums<double>& sums, double n,
                                 double pivot) {
  const double mean = sums.first / n;
  out[c] = A(pivot + mean);
  out[channels + c] = A(std::max(0.0, sums.second / n - mean * mean));
}
template <class A>
__device__ void store_gradients(A* dw, A* db, int c, const Sums<double>& sums,
                                const Batch<A>& batch) {
  db[c] = A(sums.first);
  dw[c] = A(sums.second * batch.inverse_deviation(c));
}

// ---- what becomes of a piece, by the numbers of its channels

// y = (x - mean) * scale + shift + residual, and relu where there are bits.
template <int K, class A> struct Forward {
  A mean[K], scale[K], shift[K];

  __device__ void of(int k, const Batch<A>& batch, const A* weight, const A* bias, int c) {
    mean[k] = batch.mean[c], scale[k] = weight[c] * batch.inverse_deviation(c), shift[k] = bias[c];
  }
  template <class T>
  __device__ void put(T* y, uint8_t* bits, int64_t i, const Piece<T, K>& x,
                      const Piece<T, K>& residual) const {
    Piece<T, K> out;
    unsigned on = 0;
    for (int k = 0; k < K; ++k) {
      const A v = (A(x.at[k]) - mean[k]) * scale[k] + shift[k] + A(residual.at[k]);
      const bool off = bits && v <= A(0);  // of NaN: on
      on |= unsigned(!off) << k;
      out.at[k] = T(off ? A(0) : v);
    }
    store(y + i, out);
    if (bits) bits[i / K] = uint8_t(on);
  }
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

// dx = scale * dy - slope * (x - mean) - shift
template <int K, class A> struct Backward {
  A mean[K], scale[K], slope[K], shift[K];

  // share: of an element among those of its channel.
  __device__ void of(int k, const Batch<A>& batch, const A* weight, const A* dw, const A* db,
                     A share, int c) {
    const A inverse = batch.inverse_deviation(c);
    mean[k] = batch.mean[c], scale[k] = weight[c] * inverse;
    slope[k] = dw ? scale[k] * inverse * dw[c] * share : A(0);
    shift[k] = db ? scale[k] * db[c] * share : A(0);
  }
  // gradient(k): of dy.
  template <class T, class Gradient>
  __device__ void put(T* dx, T* dresidual, int64_t i, const Piece<T, K>& x,
                      const Gradient& gradient) const {
    Piece<T, K> out, passed;
    for (int k = 0; k < K; ++k) {
      const A g = gradient(k);
      passed.at[k] = T(g);
      out.at[k] = T(scale[k] * g - slope[k] * (A(x.at[k]) - mean[k]) - shift[k]);
    }
    store(dx + i, out);
    if (dresidual) store(dresidual + i, passed);
  }
};

template <class T> T* pointer(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

}  // namespace bellows::batch_norm_cuda
