// Moving elements: between devices, dtypes and memory orders. No history; ops/ has the ops.
#pragma once
#include "core/kernel.h"

namespace bellows {

// to = from, element by element, over any strides and dtypes, on one device or between two dense
// tensors of two. On the current stream; raises the version of `to`. To the host: it is there when
// this returns, which is a wait for the device.
using Place = std::source_location;  // of the caller, for reports of such waits
void copy_into(const Tensor& to, const Tensor& from, const Place& at = Place::current());

// t itself if it is there.
Tensor to(Device device, const Tensor& t, const Place& at = Place::current());
Tensor cast(const Tensor& t, DType dtype);                               // t itself if it has it
Tensor contiguous(const Tensor& t, const MemoryFormat& format = kNCHW);  // t itself if it is
Tensor laid_out_as(const Tensor& like, const Tensor& t);  // in the order of a dense one; maybe t
Tensor clone(const Tensor& t);                                           // always fresh, contiguous

namespace kernels {
// Same device; any strides, any pair of dtypes. Rounds to nearest; float to integer truncates.
inline constinit Kernel<void(const Tensor& to, const Tensor& from)> copy{"copy"};
}  // namespace kernels
}  // namespace bellows
