// Moving elements: between devices, dtypes and memory orders. No history; ops/ has the ops.
#pragma once
#include "core/tensor/kernel.h"

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
Tensor clone(const Tensor& t);                                           // always fresh, contiguous
// With such strides, which are dense; a view of t where they differ in axes of size 1 only.
Tensor laid_out(const Tensor& t, const Strides& strides);
// fn(y) writes a y in that format: t itself if it is; else what was written is copied to t.
template <class Fn> void write_in(const MemoryFormat& format, const Tensor& t, const Fn& fn);

namespace detail {
void count_transpose();  // layout.transposes: copies from one order of the axes to another one
}
template <class Fn> void write_in(const MemoryFormat& format, const Tensor& t, const Fn& fn) {
  if (t.is_contiguous(format)) return fn(t);
  const Tensor y(t.shape(), t.dtype(), t.device(), format);
  fn(y);
  detail::count_transpose();
  copy_into(t, y);
}

namespace kernels {
// Same device; any strides, any pair of dtypes. Rounds to nearest; float to integer truncates.
inline constinit Kernel<void(const Tensor& to, const Tensor& from)> copy{"copy"};
}  // namespace kernels
}  // namespace bellows
