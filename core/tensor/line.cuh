// Lines of n contiguous elements, distributed over the threads of a team: in packs of 16 bytes
// where aligned. The elements of a thread depend on n only, never on addresses.
#pragma once
#include "core/base/round.h"
#include "core/device/reduce.cuh"
#include "core/tensor/map.cuh"

namespace bellows {

// Returns the team for lines of n elements.
inline Team team_for(int64_t n) {
  constexpr int64_t kWorthABlock = 2048;
  return {n < kWorthABlock ? kWarp : kThreads};
}
inline Grid grid_of_lines(int64_t lines, Team team) {
  const int64_t of_a_block = kThreads / team.size;
  return {dim3(unsigned(ceil_div(lines, of_a_block))), dim3(kThreads)};
}

// Calls fn(i, x[i]...) for the elements i < n of this thread.
template <class T, class Fn, class... X>
__device__ void for_line(int64_t n, Team team, const Fn& fn, const X*... x) {
  constexpr int kSize = AlignedVector<T>::kSize;
  const bool packs = fit_packs(x...);
  const auto take = [&](int64_t i, const auto... in) {  // by value: one load each
    for (int k = 0; k < kSize; ++k) fn(i + k, Acc<T>(in.at[k])...);
  };
  for (int64_t pack = team.rank(); pack * kSize < n; pack += team.size) {
    const int64_t first = pack * kSize, end = std::min(n, first + kSize);
    if (packs && end == first + kSize) {
      take(first, reinterpret_cast<const AlignedVector<T>*>(x)[pack]...);
    } else {
#pragma unroll 1
      for (int64_t i = first; i < end; ++i) fn(i, Acc<T>(x[i])...);
    }
  }
}

// y[i] = fn(i, x[i]...) for the elements i < n of this thread.
template <class T, class Fn, class... X>
__device__ void map_line(T* y, int64_t n, Team team, const Fn& fn, const X*... x) {
  constexpr int kSize = AlignedVector<T>::kSize;
  const bool packs = fit_packs(y, x...);
  const auto mapped = [&](int64_t i, const auto... in) {
    Acc<T> out[kSize];
    for (int k = 0; k < kSize; ++k) out[k] = fn(i + k, Acc<T>(in.at[k])...);
    return packed<T>(out);
  };
  for (int64_t pack = team.rank(); pack * kSize < n; pack += team.size) {
    const int64_t first = pack * kSize, end = std::min(n, first + kSize);
    if (packs && end == first + kSize) {
      reinterpret_cast<AlignedVector<T>*>(y)[pack] =
          mapped(first, reinterpret_cast<const AlignedVector<T>*>(x)[pack]...);
    } else {
#pragma unroll 1
      for (int64_t i = first; i < end; ++i) y[i] = T(fn(i, Acc<T>(x[i])...));
    }
  }
}

}  // namespace bellows
