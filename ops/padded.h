// Products whose channels and features are padded to multiples of 8, as Tensor Cores want them.
//
// What is added are zeros, and what comes of them is cut off again, so nobody else sees other
// shapes. Of a weight the padded copy is kept while the weight is not written; images, rows and
// gradients are copied at each call, but for images with zeros behind their channels
// (core/channel_room.h). Under KernelOptions::pad_channels, in 16 bits and in TF32;
// otherwise, and where all is a multiple already, these are the kernels of the same names.
//
// Counted: pad.channels, that were added in forward; pad.bytes, of all copies.
#pragma once
#include "ops/conv2d.h"
#include "ops/linear.h"

namespace bellows::padded {

// So many channels has an image of so many where a convolution computes with it.
int64_t wide_channels(const KernelOptions& options, DType dtype, Device device, int64_t channels);

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
              Slot& slot);
Tensor conv2d_backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot);
void conv2d_backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot);

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation, Slot& slot);
Tensor linear_backward_x(const Tensor& dy, const Tensor& w, Slot& slot);
void linear_backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       Slot& slot);

}  // namespace bellows::padded
