// cuBLASLt, wrapped once: opened when it is first needed; a product is described and its algorithm
// chosen once, and it is run with other addresses each time. For .cu files.
#pragma once
#include <cublasLt.h>
#include <memory>
#include "core/device/cuda.h"
#include "ops/matmul/matmul.h"

namespace bellows::cublas {

// What happens to y = a b before it is written, or beside it; `extra` is a vector.
enum class Epilogue {
  none,
  relu,
  add_row,       // extra (N) is added to each row of y
  add_row_relu,  // and then clipped at 0
  sum_a,         // extra (M) becomes the sums of the rows of a
};

// A matrix of a batch, as it lies in memory.
struct Operand {
  explicit Operand(const Tensor& t);  // (B, rows, columns), dense along its rows or its columns
  int64_t rows, columns, batch_stride;
  int64_t stride;  // between rows, or between columns
  bool column_major;
  uint32_t alignment;  // of its address, in bytes
  bool operator==(const Operand&) const = default;
};

// All that the choice of an algorithm depends on: y (B, M, N) = a (B, M, K) b (B, K, N).
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

class Product {
 public:
  explicit Product(const Problem& problem);
  explicit operator bool() const { return found_; }  // false: cuBLASLt has no algorithm for it
  // On the current stream, in a workspace from the allocator.
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
  Layout a_, b_, y_;  // as cuBLAS sees them: y^T = b^T a^T
  cublasLtMatmulHeuristicResult_t chosen_{};
  bool found_ = false, wide_ = false;  // wide: alpha and beta are doubles
  Into into_;
  bool tf32_;
};

// y = a b with that epilogue. False, and nothing is done, where there is no cuBLASLt, or none of
// its algorithms fits. Counted as kernel.vendor_calls, and with TF32 as matmul.tf32_calls.
bool multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Epilogue epilogue,
              const Tensor& extra, Slot& slot);

}  // namespace bellows::cublas
