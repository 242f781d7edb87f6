// Operands and outputs of the products in the backward pass of linear layers
// (core/tensor/gemm.cuh).
#pragma once
#include "core/tensor/gemm.cuh"
#include "core/tensor/tensor.h"

namespace bellows {

// x^T with a last row of ones, which gives db.
template <class T> struct WithOnes : gemm::Matrix<T> {
  using typename gemm::Matrix<T>::Value;
  static constexpr int64_t kOnes = -2;
  __device__ int64_t lane(int i) const {
    return i == this->lanes ? kOnes : gemm::Matrix<T>::lane(i);
  }
  __device__ Value value(int64_t lane, int64_t depth) const {
    if (lane == kOnes) return depth < 0 ? Value(0) : Value(1);
    return gemm::Matrix<T>::value(lane, depth);
  }
};

template <class T> struct WriteDx {
  T* dx;
  int in;
  __device__ void enter(int) {}
  __device__ void store(int n, int i, Acc<T> value) const { dx[int64_t(n) * in + i] = T(value); }
};
template <class T> struct WriteDw {
  T *dw, *db;  // null: not wanted
  int in;
  int64_t row, column;  // strides of dw
  __device__ void enter(int) {}
  __device__ void store(int o, int i, Acc<T> value) const {
    if (i < in && dw) dw[o * row + i * column] = T(value);
    if (i == in && db) db[o] = T(value);
  }
};
// dw (out, in) with any strides, db (out); either may be undefined.
template <class T> WriteDw<T> write_dw(const Tensor& dw, const Tensor& db, int in) {
  const bool w = dw.defined();
  return {w ? dw.ptr<T>() : nullptr, db.defined() ? db.ptr<T>() : nullptr, in,
          w ? dw.strides()[0] : 0, w ? dw.strides()[1] : 0};
}

}  // namespace bellows
