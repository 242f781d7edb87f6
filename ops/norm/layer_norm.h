// Layer normalization: gives each vector along the last axis mean 0 and variance 1, then applies a
// weight and a bias to each of its elements. Ba, Kiros and Hinton, "Layer Normalization", 2016.
#pragma once
#include "ops/norm/batch_norm.h"

namespace bellows {

// y = (x - mean) / sqrt(var + eps) * weight + bias, with mean and biased variance along the last
// axis. x: (..., D), any float dtype and strides; under amp, 16-bit x is cast to f32. weight, bias:
// (D). y is row-major, with shape and dtype of x. Statistics are computed in f32, or in f64 for
// f64. Throws (exit 2) if shapes do not fit. composed: means and elementwise ops, of one dtype.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5,
                  Impl impl = Impl::fused);

namespace kernels {
// x: (rows, D), contiguous. Writes norm.statistics (2, rows): means and biased variances of rows.
inline constinit Kernel<Tensor(const Tensor& x, const Normalization& norm)> layer_norm{
    "layer_norm"};
// With z = (x - mean) / sqrt(var + eps) and g = dy * weight:
//   dx = (g - mean(g) - z * mean(g * z)) / sqrt(var + eps)
// parts: (parts, 2, D), sums of dy * z and of dy over some of the rows. dy is contiguous.
struct LayerNormGrads {
  Tensor dx, parts;
};
inline constinit Kernel<LayerNormGrads(const Tensor& dy, const Tensor& x,
                                       const Normalization& norm)>
    layer_norm_backward{"layer_norm_backward"};
}  // namespace kernels
}  // namespace bellows
