// Ops that pick elements of x by index. On the CPU an index outside its axis throws (exit 2). A
// device does not check: such an index picks NaN, or the lowest value of an integer type, and makes
// gradients NaN. Gradients of elements that were picked repeatedly are added in the order of the
// index.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

// y[i][j][k] = x[i][index[i][j][k]][k] for axis 1. index: i64, with the rank of x and no longer
// than x along other axes; else throws (exit 2). y: shape of index, dtype of x.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
// Coordinate grids, as in torch.meshgrid with indexing="ij". Result k is a view with shape
// (len(x0), len(x1), ...) that equals x_k along axis k and is constant along the others.
std::vector<Tensor> meshgrid(std::span<const Tensor> axes);

namespace kernels {
inline constinit Kernel<Tensor(const Tensor& x, int axis, const Tensor& index)> gather{"gather"};
// dx of shape `shape`: zeros, plus dy added at the positions gather read.
inline constinit Kernel<Tensor(const Tensor& dy, int axis, const Tensor& index, const Shape& shape)>
    gather_backward{"gather_backward"};
}  // namespace kernels
}  // namespace bellows
