// Linear layers and convolutions whose channels and features are padded with zeros to multiples of
// 8, the sizes that Tensor Cores run fastest. Results are cut back, so callers see the original
// shapes.
//
// Active under KernelOptions::pad_channels, in 16 bits and in TF32. Otherwise, and where all sizes
// are multiples of 8 already, these only call the kernel. All operands are copied at each call.
//
// Counters: pad.channels, added in forward; pad.bytes, of all copies.
#pragma once
#include "core/tensor/copy.h"
#include "core/tensor/slot.h"

namespace bellows::padded {

// ---- Parts. Weights are (K, C, ...): K outputs, C inputs.

Shape widened(Shape w);
// Returns true if a product of `t` with a weight of shape `w`, or that weight's gradient, is
// padded.
bool pads(const Tensor& t, const Shape& w);

Tensor room(const Shape& shape, const Tensor& like);      // uninitialized
Tensor corner(const Tensor& t, const Shape& shape);       // view of the first elements of each axis
Tensor pad(const Tensor& t, const Shape& shape);          // `t` in the corner of zeros
Tensor with_channels(const Tensor& t, int64_t channels);  // pads axis 1
Tensor without(const Tensor& t, int64_t channels);        // copies the first ones of axis 1

// ---- The arguments after `kernel` are those of kernels::linear and kernels::conv2d, and of their
// backward_w.

template <class K, class O>
Tensor forward(const K& kernel, const Tensor& x, const Tensor& w, const Tensor& b, const O& o,
               Slot& slot) {
  if (!pads(x, w.shape())) return kernel(x, w, b, o, slot);
  const Shape wide = widened(w.shape());
  trace::count<"pad.channels">(wide[0] - w.dim(0) + wide[1] - w.dim(1));
  const Tensor y = kernel(with_channels(x, wide[1]), pad(w, wide), pad(b, {wide[0]}), o, slot);
  return without(y, w.dim(0));
}

// Returns product(dy, w), a dx with the inputs of w.
template <class Product>
Tensor backward_x(const Product& product, const Tensor& dy, const Tensor& w) {
  if (!pads(dy, w.shape())) return product(dy, w);
  const Shape wide = widened(w.shape());
  return without(product(with_channels(dy, wide[0]), pad(w, wide)), w.dim(1));
}

// dw or db may be undefined.
template <class K, class... Rest>
void backward_w(const K& kernel, const Tensor& dy, const Tensor& x, const Tensor& dw,
                const Tensor& db, Rest&&... rest) {
  const Shape shape{dy.dim(1), x.dim(1)}, wide = widened(shape);
  if (!pads(dy, shape)) return kernel(dy, x, dw, db, rest...);
  const Tensor w = dw.defined() ? room(widened(dw.shape()), dw) : dw;
  const Tensor b = db.defined() ? room({wide[0]}, db) : db;
  kernel(with_channels(dy, wide[0]), with_channels(x, wide[1]), w, b, rest...);
  if (dw.defined()) copy_into(dw, corner(w, dw.shape()));
  if (db.defined()) copy_into(db, corner(b, db.shape()));
}

}  // namespace bellows::padded
