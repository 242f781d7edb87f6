// Copies elements between devices, dtypes and memory orders. Autograd does not record the copies.
// Copies that reorder axes count in layout.transposes.
#pragma once
#include "core/base/trace.h"
#include "core/tensor/kernel.h"

namespace bellows {

// Copies `from` to `to`, elementwise, with equal shapes. On one device: any strides and dtypes.
// Between devices: dense, with equal strides and dtypes (else Error, exit 2). Runs on the current
// stream, and raises the version of `to`. A copy to the host waits for the device.
using Place = std::source_location;  // the caller's location, for reports of such waits
void copy_into(const Tensor& to, const Tensor& from, const Place& at = Place::current());

// Returns t if it is on `device` already, else a contiguous copy.
Tensor to(Device device, const Tensor& t, const Place& at = Place::current());
Tensor cast(const Tensor& t, DType dtype);                               // or t itself
Tensor contiguous(const Tensor& t, const MemoryFormat& format = kNCHW);  // or t itself
Tensor clone(const Tensor& t);                                           // a new, contiguous tensor
// Returns t with these dense strides. A view if they differ only in axes of size 1, else a copy.
Tensor laid_out(const Tensor& t, const Strides& strides);
// Calls fn(y) to write a tensor y in `format`: t itself, or else a temporary that is copied to t.
template <class Fn> void write_in(const MemoryFormat& format, const Tensor& t, const Fn& fn) {
  if (t.is_contiguous(format)) return fn(t);
  const Tensor y(t.shape(), t.dtype(), t.device(), format);
  fn(y);
  trace::count<"layout.transposes">();
  copy_into(t, y);
}

namespace kernels {
// Same device; any strides, any pair of dtypes. Rounds to nearest; float to integer truncates.
inline constinit Kernel<void(const Tensor& to, const Tensor& from)> copy{"copy"};
}  // namespace kernels
}  // namespace bellows
