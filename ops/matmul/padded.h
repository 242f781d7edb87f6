// Products whose channels and features are padded with zeros to multiples of 8, the sizes that
// Tensor Cores run fastest. The result is cut back, so callers see the original shapes.
//
// Active under KernelOptions::pad_channels, in 16 bits and in TF32. Otherwise, and where all sizes
// are multiples of 8 already, these are the kernels of the same names. The padded copy of a weight
// is kept until the weight is written. Images, rows and gradients are copied at each call, except
// images that already have zeros after their channels (core/tensor/channel_room.h).
//
// Counters: pad.channels, added in forward; pad.bytes, of all copies.
#pragma once
#include "core/tensor/copy.h"
#include "ops/matmul/linear.h"

namespace bellows::padded {

// x: (N, C), w: (K, C), b: (K) or undefined, y: (N, K).
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation, Slot& slot);
Tensor linear_backward_x(const Tensor& dy, const Tensor& w, Slot& slot);
void linear_backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       Slot& slot);

// Channel count the kernel computes with: `channels` rounded up to a multiple of 8 if padding is
// on.
int64_t wide_channels(const KernelOptions& options, DType dtype, Device device, int64_t channels);

// ---- The parts that linear and conv2d share. Weights are (K, C, ...): K outputs, C inputs.

Shape widened(Shape w);
// Returns true if a product of `t` with a weight of shape `w`, or that weight's gradient, is
// padded.
bool pads(const Tensor& t, const Shape& w);
void count_channels(const Shape& w);  // pad.channels

Tensor room(const Shape& shape, const Tensor& like);      // uninitialized
Tensor corner(const Tensor& t, const Shape& shape);       // view of the first elements of each axis
Tensor pad(const Tensor& t, const Shape& shape);          // `t` in the corner of zeros
Tensor with_channels(const Tensor& t, int64_t channels);  // pads axis 1
Tensor without(const Tensor& t, int64_t channels);        // copies the first ones of axis 1
// The padded weight, kept in `slot` for one version of the weight's storage.
Tensor weight(const Tensor& w, Slot& slot);

// Calls fn(dw, db) with padded gradients, then copies their corners into `dw` and `db`. Either may
// be undefined.
template <class Fn> void cut_into(const Tensor& dw, const Tensor& db, const Fn& fn) {
  const Shape wide = widened(dw.defined() ? dw.shape() : Shape{db.dim(0), 0});
  const Tensor w = dw.defined() ? room(wide, dw) : dw, b = db.defined() ? room({wide[0]}, db) : db;
  fn(w, b);
  if (dw.defined()) copy_into(dw, corner(w, dw.shape()));
  if (db.defined()) copy_into(db, corner(b, db.shape()));
}

}  // namespace bellows::padded
