// Elements of x picked by index. An index outside of its axis is refused; on a device, which nobody
// waits for, it picks NaN, or the lowest number of an integer type. Gradients of elements that were
// picked more than once add up, in the order of the index.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

// y[i][j][k] = x[i][index[i][j][k]][k] for axis 1. index: i64, of the rank of x, elsewhere not
// longer than x; y has its shape.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
// Whole slices: y[i][j][k] = x[i][index[j]][k] for axis 1. index: i64 (J).
Tensor index_select(const Tensor& x, int axis, const Tensor& index);
// Grids of coordinates: the k-th result, of shape (len(x0), len(x1), ...), varies along axis k only
// and holds x_k there. Views.
std::vector<Tensor> meshgrid(std::span<const Tensor> axes);

namespace kernels {
inline constinit Kernel<Tensor(const Tensor& x, int axis, const Tensor& index)> gather{"gather"};
// Zeros of that shape, and dy added where gather took its elements from.
inline constinit Kernel<Tensor(const Tensor& dy, int axis, const Tensor& index, const Shape& shape)>
    gather_backward{"gather_backward"};
}  // namespace kernels
}  // namespace bellows
