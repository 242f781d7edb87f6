// Elementwise kernels: y_i = fn(x_i, ...) on the GPU, over operands of any strides.
#pragma once
#include <utility>
#include "core/device/launch.cuh"
#include "core/tensor/walk.h"

namespace bellows {

// True if all pointers are aligned to 16 bytes, as an AlignedVector of T is.
template <class... P> HD bool fit_packs(const P*... p) {
  return ((reinterpret_cast<uintptr_t>(p) % 16 == 0) && ...);
}

namespace detail {

// Grid-stride loop, one pack per thread and round, in blocks of kThreads.
template <class T, class Fn, class... X>
__global__ void map_packs(AlignedVector<T>* y, int64_t packs, int64_t n, Fn fn, const X*... x) {
  constexpr int kSize = AlignedVector<T>::kSize;
  for (int64_t i = thread_index(); i < packs; i += thread_count()) {
    const auto apply = [&](const auto... in) {  // by value: one load each
      Acc<T> out[kSize];
      for (int k = 0; k < kSize; ++k) out[k] = fn(Acc<T>(in.at[k])...);
      return packed<T>(out);
    };
    y[i] = apply(x[i]...);
  }
  // The first threads compute the elements after the last full pack.
  const int64_t rest = packs * kSize + thread_index();
  if (rest < n)
    reinterpret_cast<T*>(y)[rest] = T(fn(Acc<T>(reinterpret_cast<const T*>(x)[rest])...));
}

// Grid-stride loop, one element per thread and round, in blocks of kThreads.
template <class T, int N, class Fn, class... X>
__global__ void map_strided(Walk<N> walk, int64_t n, Fn fn, T* y, const X*... x) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const auto at = walk.at(i);
    int operand = 0;
    const auto next = [&](const auto* p) { return Acc<T>(p[at[++operand]]); };
    // Braces, because they fix the order of evaluation, which a call's arguments do not.
    struct Args {
      Acc<T> v[sizeof...(X)];
    } const args{{next(x)...}};
    y[at[0]] = T([&]<size_t... k>(std::index_sequence<k...>) {
      return fn(args.v[k]...);
    }(std::index_sequence_for<X...>()));
  }
}

}  // namespace detail

// y = fn(x...), elementwise, all of one shape and dtype T. fn takes and returns Acc<T>.
template <class T, size_t N, class Fn>
void map_into(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  const int64_t n = y.numel();
  if (n == 0) return;
  const auto each = [&]<size_t... k>(std::index_sequence<k...>) {
    T* const y_ = y.ptr<T>();
    const bool dense = ((x[k]->strides() == y.strides()) && ...) && y.is_dense();
    if (dense && fit_packs(y_, x[k]->template ptr<T>()...)) {
      const int64_t packs = n / AlignedVector<T>::kSize;
      launch(detail::map_packs<T, Fn, std::conditional_t<k == k, AlignedVector<T>, void>...>,
             grid_of(std::max<int64_t>(packs, 1)), reinterpret_cast<AlignedVector<T>*>(y_), packs,
             n, fn, reinterpret_cast<const AlignedVector<T>*>(x[k]->template ptr<T>())...);
    } else {
      launch(detail::map_strided<T, N + 1, Fn, std::conditional_t<k == k, T, void>...>, grid_of(n),
             Walk<N + 1>(y.shape(), {&y.strides(), &x[k]->strides()...}), n, fn, y_,
             x[k]->template ptr<T>()...);
    }
  };
  each(std::make_index_sequence<N>());
}

// As above, for y of any float dtype.
template <size_t N, class Fn>
void map_into(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  visit_stored(y.dtype(), [&]<class T>(T) { map_into<T>(y, x, fn); });
}

// ---- pieces of K consecutive elements, which a thread loads or stores at once

template <int K, class T> __device__ AlignedVector<T, K> load(const T* from) {
  return *reinterpret_cast<const AlignedVector<T, K>*>(from);
}
template <class T, int K> __device__ void store(T* to, const AlignedVector<T, K>& piece) {
  *reinterpret_cast<AlignedVector<T, K>*>(to) = piece;
}

// Calls fn.operator()<K>(), K elements per piece: 16 bytes if they divide n, else one element.
template <class T, class Fn> void in_pieces(int64_t n, const Fn& fn) {
  if (n % AlignedVector<T>::kSize == 0)
    fn.template operator()<AlignedVector<T>::kSize>();
  else
    fn.template operator()<1>();
}

}  // namespace bellows
