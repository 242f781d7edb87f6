// y = max_pool2d(relu(conv2d(x, w, b)), 2) as one op, for the first layers of small models. It
// writes no intermediate tensor, and its backward computes only the pixels that won their window.
#pragma once
#include "core/tensor/kernel.h"
#include "ops/base/op.h"

namespace bellows {

// x: (N, C, H, W), with `padding` zeros on each side. w: (K, C, KH, KW). b: (K). Stride 1. Returns
// y: (N, K, OH / 2, OW / 2), rounded down. All have one dtype: f32 or f64, on a GPU also 16 bits;
// under Autocast x is cast to f32. Throws (exit 2) if shapes or dtypes do not fit, or if the
// convolution is too small to pool.
//
// Fused it is one pass forward and one backward; on a GPU, one kernel launch each. On the CPU y is
// CHWN if the batch fills the vector lanes at least as well as the output channels do, else
// NCHW. Counted as fuse.conv_act_pool.
Tensor conv_act_pool(const Tensor& x, const Tensor& w, const Tensor& b, int64_t padding, Impl impl);

namespace kernels {
struct ConvActPool {
  Tensor y;
  // Row-major index, 0 to 3, of the largest pixel of each 2x2 window; kNoWinner unless y > 0.
  // u8, with the shape and memory format of y.
  Tensor winner;
};
inline constexpr uint8_t kNoWinner = 4;
inline constinit Kernel<ConvActPool(const Tensor& x, const Tensor& w, const Tensor& b,
                                    int64_t padding)>
    conv_act_pool{"conv_act_pool"};
// Writes dw, with any dense strides, and db. Returns dx, undefined unless needs_dx.
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& winner, const Tensor& x,
                               const Tensor& w, const Tensor& dw, const Tensor& db, int64_t padding,
                               bool needs_dx)>
    conv_act_pool_backward{"conv_act_pool_backward"};

// Calls fn.operator()<S>() with the size of a square kernel for which loops are unrolled, else 0.
template <class Fn>
__attribute__((always_inline)) inline void with_kernel(int64_t KH, int64_t KW, const Fn& fn) {
  if (KH == 5 && KW == 5)
    fn.template operator()<5>();
  else if (KH == 3 && KW == 3)
    fn.template operator()<3>();
  else
    fn.template operator()<0>();
}
}  // namespace kernels
}  // namespace bellows
