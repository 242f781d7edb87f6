// What bench_gpu times: kernels that move bytes rather than compute.
#pragma once
#include <functional>
#include "core/tensor/tensor.h"

namespace bellows {

// How large the inputs are, of what they are made, and where they lie.
struct Setup {
  int64_t n;  // elements of the largest tensor
  DType dtype;
  Device device;

  Tensor empty(const Shape& shape, DType type) const { return {shape, type, device}; }
  Tensor normal(const Shape& shape) const;                  // random, never zeros
  Tensor indices(const Shape& shape, int64_t below) const;  // i64, random
  Shape rows(int64_t length) const { return {n / length, length}; }
  Shape images(int64_t channels, int64_t side) const {  // (N, C, H, W)
    return {n / (channels * side * side), channels, side, side};
  }
};

// A kernel with its inputs ready.
struct Work {
  int64_t bytes;                             // that a perfect kernel reads or writes in place
  std::function<std::vector<Tensor>()> run;  // what it returns is written once, on top of them
};
using Outputs = std::vector<Tensor>;
Work work(const std::vector<Tensor>& touched, std::function<Outputs()> run);  // each of them once

struct Case {
  const char* name;
  const char* passes;  // "x; y": what is read, then what is written
  std::function<Work(const Setup& setup)> prepare;
};
inline std::vector<Case>& own_kernels() {
  static std::vector<Case> all;
  return all;
}
struct AddCases {
  AddCases(std::initializer_list<Case> cases) { own_kernels().insert(own_kernels().end(), cases); }
};

}  // namespace bellows
