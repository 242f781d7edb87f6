// GPU loop over the elements of a chain's tensors. Shared by the interpreter
// (ops/chain/pointwise.cu) and by kernels compiled at run time, which receive this very text. It
// may include only headers that the runtime compiler receives as well.
#pragma once
#include "core/base/half.h"
#include "ops/base/functors.h"

namespace bellows {

inline constexpr int kMostTensors = 9, kMostAxes = 6;

// Elements are numbered in the memory order of the outputs, which are dense.
struct PointwiseGrid {
  int64_t count = 0;
  int64_t packs = 0;  // groups of 16 bytes in each output; 0 if alignment forbids them
  int inputs = 0, outputs = 0;
  int rank = 0;  // axes of the strided inputs, innermost first; 0 if all are dense
  int64_t size[kMostAxes] = {};
  struct Input {
    const void* data;
    bool dense;  // same memory order as the outputs
    int64_t step[kMostAxes];
  } in[kMostTensors] = {};
  void* out[kMostTensors] = {};
};

// Offset of element i in each input. 32-bit division takes a quarter of the time of 64-bit
// division.
template <int kIn, class Index>
__device__ void locate(const PointwiseGrid& g, Index i, int64_t (&offset)[kIn]) {
  for (int k = 0; k < kIn; ++k) offset[k] = 0;
#pragma unroll 1
  for (int axis = 0; axis < g.rank; ++axis) {
    const Index here = i % Index(g.size[axis]);
    i /= Index(g.size[axis]);
    for (int k = 0; k < kIn; ++k) offset[k] += int64_t(here) * g.in[k].step[axis];
  }
}

// Computes elements [i, i + n), which are in one row of each input. body(x, y) maps an element's
// values in all inputs to those in all outputs, as Acc<T>.
template <class T, int kIn, int kOut, int n, class Body>
__device__ void run_elements(const PointwiseGrid& g, int64_t i, const Body& body) {
  AlignedVector<T, n> in[kIn] = {};
  Acc<T> out[kOut][n] = {};
  int64_t offset[kIn];
  if (g.rank && g.count < 0x7fffffff)
    locate(g, uint32_t(i), offset);
  else
    locate(g, uint64_t(i), offset);
  for (int k = 0; k < kIn; ++k) {
    if (k >= g.inputs) continue;
    const T* const data = static_cast<const T*>(g.in[k].data);
    if (g.in[k].dense)
      in[k] = *reinterpret_cast<const AlignedVector<T, n>*>(data + i);
    else
      for (int e = 0; e < n; ++e) in[k].at[e] = data[offset[k] + e * g.in[k].step[0]];
  }
  for (int e = 0; e < n; ++e) {
    Acc<T> x[kIn], y[kOut];
    for (int k = 0; k < kIn; ++k)
      if (k < g.inputs) x[k] = Acc<T>(in[k].at[e]);
    body(x, y);
    for (int k = 0; k < kOut; ++k)
      if (k < g.outputs) out[k][e] = y[k];
  }
  for (int k = 0; k < kOut; ++k)
    if (k < g.outputs)
      *reinterpret_cast<AlignedVector<T, n>*>(static_cast<T*>(g.out[k]) + i) = packed<T>(out[k]);
}

// Computes all elements on a one-dimensional grid, for up to kIn inputs and kOut outputs.
template <class T, int kIn, int kOut, class Body>
__device__ void run_all_elements(const PointwiseGrid& g, const Body& body) {
  constexpr int kPack = AlignedVector<T>::kSize;
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = thread; i < g.packs; i += threads)
    run_elements<T, kIn, kOut, kPack>(g, i * kPack, body);
  for (int64_t i = g.packs * kPack + thread; i < g.count; i += threads)
    run_elements<T, kIn, kOut, 1>(g, i, body);
}

}  // namespace bellows
