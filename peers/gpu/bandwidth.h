// Registry of the memory-bound kernels that bench_gpu times.
#pragma once
#include <functional>
#include "core/tensor/tensor.h"

namespace bellows {

// Size, dtype and device of the inputs.
struct Setup {
  int64_t n;  // elements of the largest tensor
  DType dtype;
  Device device;

  Tensor empty(const Shape& shape, DType type) const { return {shape, type, device}; }
  Tensor normal(const Shape& shape) const;                  // normal distribution, in `dtype`
  Tensor indices(const Shape& shape, int64_t below) const;  // i64, random in [0, below)
  Shape rows(int64_t length) const { return {n / length, length}; }
  Shape images(int64_t channels, int64_t side) const {  // (N, C, H, W)
    return {n / (channels * side * side), channels, side, side};
  }
};

// A kernel with its inputs.
struct Task {
  int64_t bytes;  // that an ideal kernel reads or writes in place, without its outputs
  std::function<std::vector<Tensor>()> run;  // launches the kernel; returns its outputs
};
using Outputs = std::vector<Tensor>;
// Task whose bytes are the sum over `touched`. List a tensor twice if it is read and written.
Task work(const std::vector<Tensor>& touched, std::function<Outputs()> run);

struct Case {
  const char* name;
  const char* passes;  // "x; y": tensors read; tensors written
  std::function<Task(const Setup& setup)> prepare;
};
inline std::vector<Case>& own_kernels() {
  static std::vector<Case> all;
  return all;
}
struct AddCases {
  AddCases(std::initializer_list<Case> cases) { own_kernels().insert(own_kernels().end(), cases); }
};

}  // namespace bellows
