#include "ops/conv/padded_conv2d.h"

namespace bellows::padded {

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
              Slot& slot) {
  if (!pads(x, w.shape())) return kernels::conv2d(x, w, b, options, slot);
  count_channels(w.shape());
  const Shape wide = widened(w.shape());
  const Tensor y =
      kernels::conv2d(with_channels(x, wide[1]), weight(w, slot), pad(b, {wide[0]}), options, slot);
  return without(y, w.dim(0));
}

Tensor conv2d_backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot) {
  if (!pads(dy, w.shape())) return kernels::conv2d_backward_x(dy, w, x, options, slot);
  const Shape wide = widened(w.shape());
  const Tensor dx = kernels::conv2d_backward_x(with_channels(dy, wide[0]), weight(w, slot),
                                               {x[0], wide[1], x[2], x[3]}, options, slot);
  return without(dx, x[1]);
}

void conv2d_backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot) {
  if (!pads(dy, dw.shape())) return kernels::conv2d_backward_w(dy, x, dw, db, options, slot);
  const Shape wide = widened(dw.shape());
  cut_into(dw, db, [&](const Tensor& w, const Tensor& b) {
    kernels::conv2d_backward_w(with_channels(dy, wide[0]), with_channels(x, wide[1]), w, b, options,
                               slot);
  });
}

}  // namespace bellows::padded
