// Two-dimensional convolution (a cross-correlation, as in PyTorch and Paddle).
#pragma once
#include "core/tensor/tuned_kernel.h"

namespace bellows {

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;  // zeros on each of the four sides
  bool operator==(const Conv2dOptions&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Conv2dOptions& o) {
  return out << "stride " << o.stride << " padding " << o.padding;
}

// Convolution with gradients for x, w and b.
// x: (N, C, H, W). w: (K, C, KH, KW). b: (K) or undefined. Returns y: (N, K, OH, OW) with OH = (H +
// 2 padding - KH) / stride + 1, and OW alike. All have one float dtype; 16-bit types accumulate in
// f32, and under amp f32 inputs are cast to 16 bits. Any memory format: y is NHWC if x or w is,
// else NCHW. `slot` caches vendor primitives and tuned algorithms between calls. Throws (exit 2) if
// shapes or dtypes do not fit.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options = {},
              Slot* slot = nullptr);

// Memory format of a convolution's result, NHWC or NCHW, from its two operands: (x, w), (dy, w) or
// (dy, x).
const MemoryFormat& conv2d_format(const Tensor& a, const Tensor& b);
// Returns the shape of y. Throws (exit 2), naming `op`, if x and w do not fit.
Shape conv2d_shape(const char* op, const Shape& x, const Shape& w, const Conv2dOptions& options);

// Forward and the two gradients are separate kernels, so that an unneeded gradient is not computed.
// Shapes and dtypes are those of conv2d(). Every kernel takes dense tensors in any memory format,
// on one device.
namespace kernels {
inline constinit TunedKernel<Tensor(const Tensor& x, const Tensor& w, const Tensor& b,
                                    const Conv2dOptions& options, Slot& slot)>
    conv2d{"conv2d"};
// Returns dx, with the shape `x`.
inline constinit TunedKernel<Tensor(const Tensor& dy, const Tensor& w, const Shape& x,
                                    const Conv2dOptions& options, Slot& slot)>
    conv2d_backward_x{"conv2d_backward_x"};
// Writes dw, with any dense strides, and db unless it is undefined.
inline constinit TunedKernel<void(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                  const Tensor& db, const Conv2dOptions& options, Slot& slot)>
    conv2d_backward_w{"conv2d_backward_w"};
}  // namespace kernels
}  // namespace bellows
