// y = a b for matrices, and for batches of them.
#pragma once
#include "core/tensor/kernel.h"
#include "core/tensor/slot.h"

namespace bellows {

// a (.., M, K) and b (.., K, N) with the same leading axes, or b (K, N) for all of them:
// y (.., M, N). Of any float type, 16 bits added up in 32.
Tensor matmul(const Tensor& a, const Tensor& b, Slot* slot = nullptr);

// t with its last two axes swapped: a view, without history.
Tensor transposed(const Tensor& t);

enum class Into { overwrite, add };

namespace kernels {
// y (B, M, N) = a (B, M, K) b (B, K, N), or the same added to y. Each matrix is dense along its
// rows or along its columns; y along its rows.
inline constinit Kernel<void(const Tensor& y, const Tensor& a, const Tensor& b, Into into,
                             Slot& slot)>
    matmul{"matmul"};

// Any strides and two or more axes; y.shape() as above. Copies a and b where the kernel needs it.
void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into = Into::overwrite,
              Slot* slot = nullptr);
Tensor product(const Tensor& a, const Tensor& b, Slot* slot = nullptr);  // into fresh memory
// (.., M, K) as one matrix (rows, K); copied where its strides do not allow for that.
Tensor flat_rows(const Tensor& t);
// t as (batch, rows, columns) with strides that the kernel takes; copied where its own do not fit.
Tensor batched(const Tensor& t, int64_t batch);
}  // namespace kernels
}  // namespace bellows
