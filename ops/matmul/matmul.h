// Matrix products y = a b, also for batches of matrices.
#pragma once
#include <optional>
#include "core/tensor/kernel.h"
#include "core/tensor/slot.h"

namespace bellows {

// a: (..., M, K). b: (..., K, N) with the same leading axes, or (K, N) for all of them. Returns y:
// (..., M, N), row-major. Both have one float dtype; 16-bit types accumulate in f32, and under amp
// f32 inputs are cast to 16 bits. Throws (exit 2) if shapes or dtypes do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

// Swaps the last two axes. Returns a view without history.
Tensor transposed(const Tensor& t);

// Memory layout of matrices: each row is contiguous, and rows are `stride` elements apart; or, if
// transposed, each column. The stride is at least the length of a row, even if there is only one.
struct MatrixLayout {
  bool transposed;
  int64_t stride;
  bool operator==(const MatrixLayout&) const = default;
};
// Returns the layout of t (..., rows, columns), or nothing if neither rows nor columns are
// contiguous and apart.
std::optional<MatrixLayout> matrix_layout(const Tensor& t);

enum class Into { overwrite, add };

namespace kernels {
// y (B, M, N) = a (B, M, K) b (B, K, N), or y += a b. In each matrix, rows or columns are
// contiguous; in y the rows are.
inline constinit Kernel<void(const Tensor& y, const Tensor& a, const Tensor& b, Into into,
                             Slot& slot)>
    matmul{"matmul"};

// Like matmul for a and b with any strides and two or more axes; copies them if the kernel needs
// it. y is row-major, with the shape of the product. On the CPU, KernelOptions::blas names the
// library of f32 products.
void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into = Into::overwrite,
              Slot* slot = nullptr);
Tensor product(const Tensor& a, const Tensor& b, Slot* slot = nullptr);  // allocates y
// Flattens (..., M, K) to one matrix (rows, K). Copies t if it has more than two axes and is not
// row-major.
Tensor flat_rows(const Tensor& t);
// Views t as (batch, rows, columns) with strides that the kernel takes; copies t if it must.
Tensor batched(const Tensor& t, int64_t batch);

// Part of a matrix: `count` rows of `length` contiguous elements, `stride` apart.
template <class T> struct Rows {
  T* at;
  int64_t count, length, stride;
};
// y = a b, or y += a b, for one matrix on the calling thread of the CPU, where `depth` is the
// number of columns of a. T: float or double.
template <class T>
void multiply_here(const Rows<T>& y, const T* a, const MatrixLayout& a_layout, const T* b,
                   const MatrixLayout& b_layout, int64_t depth, Into into);
}  // namespace kernels

// OpenBLAS on the CPU, opened at run time: ops/vendor/openblas.cpp.
namespace openblas {
void require();      // throws Error, exit 2, that names its package, unless it is installed
std::string core();  // CPU whose kernels it has chosen: "SkylakeX"; "" unless it is installed
// kernels::matmul in f32.
void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into);
}  // namespace openblas
}  // namespace bellows
