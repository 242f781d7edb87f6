// y_i = fn(x_i, ...) on the CPU, over operands of any strides: the loop of all elementwise kernels.
// Only the loop over dense elements is compiled for each fn; operands that are stretched or in
// another memory order are copied, block by block, into the order of y.
#pragma once
#include <functional>
#include <utility>
#include "core/base/dtype.h"
#include "core/device/parallel.h"
#include "core/tensor/walk.h"
#include "ops/base/lanes.h"
#include "ops/base/maths.h"

namespace bellows {

inline constexpr int64_t kMapChunk = 16384;  // elements per chunk: enough to wake a thread
inline constexpr int64_t kMapBlock = 1024;  // elements per block: its operands stay in the L1 cache

// Runs loop(), compiled for this CPU's widest vectors of Acc<T>. Everything it calls must be
// inlined.
template <class T, class Loop> void in_wide_loop(const Loop& loop) {
  in_lanes<Acc<T>>([&]<int L>() __attribute__((always_inline)) { loop(); });
}

template <class T, class Fn, class... X>
[[gnu::always_inline]] inline void map_dense(T* y, int64_t n, const Fn& fn, const X*... x) {
  for (int64_t i = 0; i < n; ++i) y[i] = T(fn(Acc<X>(x[i])...));
}

template <class T> void exp_in_place(T* x, int64_t n) {
  in_wide_loop<T>([&]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i]);
  });
}

// An operand in the memory order of y, which is dense: a pointer into it where its elements follow
// one another as those of y do, else a copy. T is f64, f32, bf16 or f16. Keeps a pointer to x.
template <class T> class BlockReader {
 public:
  BlockReader(const Tensor& x, const Tensor& y);
  // Returns elements [begin, end); copies them to `room` if necessary.
  const T* block(int64_t begin, int64_t end, T* room) const;

 private:
  Walk<2> walk_;
  const T* x_;
};

// loop(y, x, n): y_i = fn(x_i, ...) for n dense elements.
template <class T, size_t N>
using MapLoop = std::function<void(T* y, const std::array<const T*, N>& x, int64_t n)>;

// Runs loop on all elements of y, which is dense, and of x. N is 1, 2 or 3.
template <class T, size_t N>
void map_blocks(const Tensor& y, const Tensor* const (&x)[N], const MapLoop<T, N>& loop);

// y = fn(x...) for tensors of one shape and dtype T. y is dense. fn takes Acc<T>.
template <class T, size_t N, class Fn>
void map_into(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  const auto each = [&]<size_t... k>(std::index_sequence<k...>) {
    map_blocks<T, N>(y, x, [&fn](T* to, const std::array<const T*, N>& from, int64_t n) {
      in_wide_loop<T>([&]() __attribute__((always_inline)) { map_dense(to, n, fn, from[k]...); });
    });
  };
  each(std::make_index_sequence<N>());
}

}  // namespace bellows
