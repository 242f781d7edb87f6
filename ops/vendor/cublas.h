// Wrapper of cuBLASLt, for .cu files. The library is opened on first use. A matrix product is
// described and its algorithm chosen once, then run with new addresses each time. Compute thread
// only. Errors of cuBLASLt throw Exit::internal.
#pragma once
#include <cublasLt.h>
#include <memory>
#include "core/device/cuda.h"
#include "ops/matmul/matmul.h"

namespace bellows::cublas {

std::string loaded();  // "cuBLASLt 130200" or "no cuBLASLt"

// Work fused into the kernel of y = a b. `extra` is a vector.
enum class Epilogue {
  none,
  relu,
  add_row,       // adds extra (N) to each row of y
  add_row_relu,  // the same, then relu
  sum_a,         // writes the sum of each row of a to extra (M)
};

// Memory layout of a batch of matrices.
struct Operand {
  explicit Operand(const Tensor& t);  // (B, rows, columns), rows or columns contiguous
  int64_t rows, columns, batch_stride;
  MatrixLayout layout;
  uint32_t alignment;  // bytes to which the address is aligned
  bool operator==(const Operand&) const = default;
};

// Key of a Product: everything that the choice of an algorithm depends on.
// y (B, M, N) = a (B, M, K) b (B, K, N), all of one dtype.
struct Problem {
  Problem(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Epilogue epilogue,
          const void* extra);
  DType dtype;
  int64_t batch;
  Operand y, a, b;
  Into into;
  Epilogue epilogue;
  uint32_t extra_alignment;
  bool tf32;
  int64_t workspace_bytes;
  bool operator==(const Problem&) const = default;
};

// A product with its algorithm.
class Product {
 public:
  explicit Product(const Problem& problem);
  explicit operator bool() const { return found_; }  // false: cuBLASLt has no algorithm for it
  // Runs on the current stream, with a workspace from the allocator. The tensors must match the
  // Problem in shape, strides, dtype and alignment.
  void run(const Tensor& y, const Tensor& a, const Tensor& b, void* extra) const;

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDescOpaque_t* operation) const;
    void operator()(cublasLtMatrixLayoutOpaque_t* layout) const;
    void operator()(cublasLtMatmulPreferenceOpaque_t* preference) const;
  };
  template <class T> using Owned = std::unique_ptr<T, Destroy>;
  using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
  static Layout layout(const Operand& operand, const Problem& problem);

  void choose(const Problem& problem);

  Owned<cublasLtMatmulDescOpaque_t> operation_;
  Layout a_, b_, y_;  // cuBLAS is column-major and computes y^T = b^T a^T: a_ describes our b
  cublasLtMatmulHeuristicResult_t chosen_{};
  bool found_ = false, wide_ = false;  // wide: alpha and beta are doubles
  Into into_;
  bool tf32_;
};

// Computes y = a b, or y += a b for Into::add, with the epilogue; shapes as in Problem, f32, f64,
// bf16 or f16. `extra` may be undefined if the epilogue needs none. Returns false, having done
// nothing, if cuBLASLt is missing or has no algorithm, or if a tensor is empty. Counted in
// kernel.vendor_calls, and with TF32 in matmul.tf32_calls.
bool multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Epilogue epilogue,
              const Tensor& extra, Slot& slot);

}  // namespace bellows::cublas
