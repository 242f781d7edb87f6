// Two-dimensional convolution (as everywhere in the field: a cross-correlation).
#pragma once
#include "core/tensor/kernel.h"
#include "core/tensor/slot.h"

namespace bellows {

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;  // zeros on each side
  bool operator==(const Conv2dOptions&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Conv2dOptions& o) {
  return out << "stride " << o.stride << " padding " << o.padding;
}

// x (N, C, H, W), w (K, C, KH, KW), b (K) or undefined: y (N, K, OH, OW), where
// OH = (H + 2 padding - KH) / stride + 1. Of any float type, 16 bits added up in 32; in any memory
// format: y is NHWC where x or w is, else NCHW.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options = {},
              Slot* slot = nullptr);

// In which of the two the images of a convolution are, by x and w, or dy and w, or dy and x.
const MemoryFormat& conv2d_format(const Tensor& a, const Tensor& b);
Shape conv2d_shape(const char* op, const Shape& x, const Shape& w, const Conv2dOptions& options);

// The three halves are kernels of their own, so that what nobody asked for is not computed.
namespace kernels {
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& w, const Tensor& b,
                               const Conv2dOptions& options, Slot& slot)>
    conv2d{"conv2d"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& w, const Shape& x,
                               const Conv2dOptions& options, Slot& slot)>
    conv2d_backward_x{"conv2d_backward_x"};
// Writes dw, of any dense strides, and db unless it is undefined.
inline constinit Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                             const Conv2dOptions& options, Slot& slot)>
    conv2d_backward_w{"conv2d_backward_w"};
}  // namespace kernels
}  // namespace bellows
