// y = max_pool2d(relu(conv2d(x, w, b)), 2): the first layers of small nets as one op.
#pragma once
#include "core/tensor/kernel.h"
#include "ops/base/op.h"

namespace bellows {

struct ConvActPoolOptions {
  int64_t padding = 0;  // zeros on each side of x
};

// x (N, C, H, W), w (K, C, KH, KW), b (K), stride 1: y (N, K, OH / 2, OW / 2). f32 or f64,
// on a GPU 16 bits too; under Autocast x is computed with in f32.
// Fused, it is one pass forward and one backward (on a GPU one launch and two), and on the CPU y is
// CHWN where samples fill the vector lanes no worse than channels do.
Tensor conv_act_pool(const Tensor& x, const Tensor& w, const Tensor& b,
                     const ConvActPoolOptions& options, Impl impl);

namespace kernels {
struct ConvActPool {
  Tensor y;
  // u8, like y: which of the four pixels of its window was taken, in row-major order; kNoWinner
  // where relu let nothing through.
  Tensor winner;
};
inline constexpr uint8_t kNoWinner = 4;
inline constinit Kernel<ConvActPool(const Tensor& x, const Tensor& w, const Tensor& b,
                                    int64_t padding)>
    conv_act_pool{"conv_act_pool"};
// Writes dw, of any dense strides, and db; returns dx, which is undefined if nobody asks for it.
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& winner, const Tensor& x,
                               const Tensor& w, const Tensor& dw, const Tensor& db, int64_t padding,
                               bool needs_dx)>
    conv_act_pool_backward{"conv_act_pool_backward"};
}  // namespace kernels
}  // namespace bellows
