// conv2d with cuDNN: f32 (TF32 if enabled), bf16, f16, and other dtypes that it has engines for.
// Weights are passed in the memory format of the images; if stored in another one, each call copies
// them.
#include "core/tensor/copy.h"
#include "ops/reduce.h"
#include "ops/vendor/cudnn_conv2d.h"

namespace bellows {

namespace cudnn {

ConvolutionGraph describe(const Convolution& c) {
  const auto layout = [&](const Shape& shape) { return Layout(shape, c.format, c.dtype); };
  const Layout x = layout(c.x), w = layout(c.w);
  const Layout y = layout(conv2d_shape("conv2d", c.x, c.w, c.options));
  ConvolutionGraph d{Graph(c.dtype)};
  const bool forward = c.half == Half::forward, for_w = c.half == Half::backward_w;
  ConvolutionTensors& t = d.tensors;
  t.first = d.graph.input(forward ? x : y);
  t.second = d.graph.input(for_w ? x : w);
  t.result = forward ? d.graph.conv2d(t.first, t.second, c.options)
             : for_w ? d.graph.conv2d_backward_w(t.first, t.second, c.options)
                     : d.graph.conv2d_backward_x(t.first, t.second, c.options);
  if (c.bias) {
    t.bias = d.graph.input(layout({1, c.w[0], 1, 1}));
    t.result = d.graph.add(t.result, t.bias);
  }
  d.graph.output(t.result, forward ? y : for_w ? w : x);
  return d;
}

std::ostream& operator<<(std::ostream& out, const Convolution& c) {
  constexpr const char* halves[] = {"conv2d", "conv2d_backward_x", "conv2d_backward_w"};
  return out << halves[int(c.half)] << ' ' << c.dtype << ' ' << c.format.name << c.x << c.w
             << (c.bias ? " bias " : " ") << c.options << ' ' << c.filter;
}

}  // namespace cudnn

namespace {

using cudnn::aligned;
using cudnn::Half;
using Planned = cudnn::Planned<cudnn::ConvolutionTensors>;

// Tensors of a graph, in its format; the bias may be undefined.
struct Operands {
  Tensor first, second, bias, result;
};

// Returns false if the plain kernel must run. plain() returns its result.
template <class Plain>
bool run(const cudnn::Convolution& key, const Operands& o, Slot& slot, const Plain& plain) {
  if (!cudnn::available()) return note_fallback("no cuDNN"), false;
  // A copy, because the plain kernel in a trial may evict the slot's.
  const Planned planned = slot.get<Planned>(key, [&] { return Planned(key, cudnn::describe); });
  const cudnn::ConvolutionTensors& t = planned.tensors;
  const Bindings bindings = {
      {t.first, o.first}, {t.second, o.second}, {t.bias, o.bias}, {t.result, o.result}};
  const auto once = [&](const VendorPlan& plan) {
    plan.run(bindings);
    return PlannedCall::Tensors{o.result};
  };
  return planned.call->run(bindings, [&] {
    return PlannedCall::Trial{once, [&] { return PlannedCall::Tensors{plain()}; }};
  });
}

}  // namespace

static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options, Slot& slot) {
  const MemoryFormat& format = conv2d_format(x, w);
  const Tensor y(conv2d_shape("conv2d", x.shape(), w.shape(), options), x.dtype(), Device::cuda,
                 format);
  const auto plain = [&] { return kernels::conv2d.plain(x, w, b, options, slot); };
  const bool done = run({Half::forward, x.shape(), w.shape(), format, x.dtype(), b.defined(),
                         options, cudnn::filter()},
                        {aligned(contiguous(x, format)), aligned(contiguous(w, format)),
                         b.defined() ? aligned(contiguous(b)) : b, y},
                        slot, plain);
  return done ? y : plain();
}

static Tensor backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot) {
  const MemoryFormat& format = conv2d_format(dy, w);
  const Tensor dx(x, dy.dtype(), Device::cuda, format);
  const auto plain = [&] { return kernels::conv2d_backward_x.plain(dy, w, x, options, slot); };
  const bool done =
      run({Half::backward_x, x, w.shape(), format, dy.dtype(), false, options, cudnn::filter()},
          {aligned(contiguous(dy, format)), aligned(contiguous(w, format)), {}, dx}, slot, plain);
  return done ? dx : plain();
}

static void backward_w(const Tensor& dy_, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot) {
  const MemoryFormat& format = conv2d_format(dy_, x);
  const Tensor dy = aligned(contiguous(dy_, format));
  const cudnn::Output result(dw, format);
  const auto plain = [&] {
    const Tensor dw_ = empty_like(dw);
    kernels::conv2d_backward_w.plain(dy_, x, dw_, Tensor(), options, slot);
    return dw_;
  };
  const bool done = run(
      {Half::backward_w, x.shape(), dw.shape(), format, x.dtype(), false, options, cudnn::filter()},
      {dy, aligned(contiguous(x, format)), {}, result.tensor()}, slot, plain);
  if (!done) return kernels::conv2d_backward_w.plain(dy_, x, dw, db, options, slot);
  result.done();
  if (db.defined()) copy_into(db, kernels::sum(dy, {1, dw.dim(0), 1, 1}, 1).view_as(db.shape()));
}

static const bool gpu =
    kernels::conv2d.vendor_on(Device::cuda, forward, cudnn::kVendor) &&
    kernels::conv2d_backward_x.vendor_on(Device::cuda, backward_x, cudnn::kVendor) &&
    kernels::conv2d_backward_w.vendor_on(Device::cuda, backward_w, cudnn::kVendor);

}  // namespace bellows
