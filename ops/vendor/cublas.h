// Wrapper of cuBLASLt that does not include its headers. The library is opened on first use. A
// matrix product is described and its algorithm chosen once, then run with new addresses each time.
// Compute thread only.
#pragma once
#include "ops/matmul/matmul.h"
#include "ops/vendor/planned_call.h"

namespace bellows::cublas {

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

// Key of the plans: everything that the choice of an algorithm depends on.
// y (B, M, N) = a (B, M, K) b (B, K, N), added to y or not, all of one dtype.
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
std::ostream& operator<<(std::ostream& out, const Problem& problem);

// ---- the library: ops/vendor/cublas.cu

bool available();
std::string loaded();  // "cuBLASLt 130200" or "no cuBLASLt"
// Partial sums are added in a fixed order.
inline constexpr Vendor kVendor{.thread_invariant = true, .version = loaded};

// Tensors of a plan. It must run with tensors that match the Problem in shape, strides, dtype and
// alignment; kExtra is bound if the epilogue needs it.
enum : int64_t { kY, kA, kB, kExtra };
// Returns the algorithms that cuBLASLt's heuristic ranks first, the best first, for every search;
// empty if it has none.
Proposals propose(const Problem& problem, Search search);

}  // namespace bellows::cublas
