#include "ops/matmul/padded.h"
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"

// K output channels or features, C input channels or features.
namespace bellows::padded {

static int64_t widened(int64_t n) { return round_up(n, 8); }
Shape widened(Shape w) {
  w[0] = widened(w[0]), w[1] = widened(w[1]);
  return w;
}

bool pads(const Tensor& t, const Shape& w) {
  const KernelOptions& options = kernel_options();
  const bool tf32 = options.tf32 && t.device() == Device::cuda && t.dtype() == DType::f32;
  return options.pad_channels && (is_low(t.dtype()) || tf32) && !(widened(w) == w);
}

Tensor room(const Shape& shape, const Tensor& like) {
  const Tensor t(shape, like.dtype(), like.device(), format_of(like) == kNHWC ? kNHWC : kNCHW);
  trace::count<"pad.bytes">(t.nbytes());
  return t;
}
Tensor corner(const Tensor& t, const Shape& shape) {
  return t.view(shape, t.strides(), t.offset());
}

Tensor pad(const Tensor& t, const Shape& shape) {
  if (!t.defined() || t.shape() == shape) return t;
  const Tensor y = room(shape, t);
  fill(y, 0);
  copy_into(corner(y, t.shape()), t);
  return y;
}
Tensor with_channels(const Tensor& t, int64_t channels) {
  Shape shape = t.shape();
  shape[1] = channels;
  return pad(t, shape);
}
Tensor without(const Tensor& t, int64_t channels) {
  if (t.dim(1) == channels) return t;
  Shape shape = t.shape();
  shape[1] = channels;
  const Tensor y = room(shape, t);
  copy_into(y, corner(t, shape));
  return y;
}

}  // namespace bellows::padded
