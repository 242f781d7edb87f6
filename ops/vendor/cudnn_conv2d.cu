// conv2d with cuDNN: f32 (TF32 if enabled), bf16, f16, and other dtypes that it has engines for.
// Weights are passed in the memory format of the images; if stored in another one, each call copies
// them.
#include "core/tensor/copy.h"
#include "ops/reduce.h"
#include "ops/vendor/cudnn.h"

namespace bellows {

// ---- the part of cuDNN's wrapper that does not call the library

std::string cudnn::loaded() { return available() ? "cuDNN " + version() : "no cuDNN"; }

cudnn::Filter cudnn::filter() {
  const KernelOptions& options = kernel_options();
  return {options.tf32, options.deterministic, options.workspace_mb << 20};
}

std::ostream& cudnn::operator<<(std::ostream& out, const Convolution& c) {
  constexpr const char* kHalves[] = {"conv2d", "conv2d_backward_x", "conv2d_backward_w"};
  return out << kHalves[int(c.half)] << ' ' << c.dtype << ' ' << c.format.name << c.x << c.w
             << (c.bias ? " bias " : " ") << c.options << (c.filter.tf32 ? " tf32 " : " ")
             << (c.filter.deterministic ? "deterministic " : "") << "workspace "
             << c.filter.workspace_bytes;
}

// ---- the passes

using cudnn::Half;

static bool is_aligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.bytes()) % 16 == 0; }

// Returns t in this memory format, at an address that plans accept. Views may be unaligned.
static Tensor aligned(const Tensor& t, const MemoryFormat& format) {
  const Tensor dense = contiguous(t, format);
  if (is_aligned(dense)) return dense;
  const Tensor copy = empty_like(dense);
  copy_into(copy, dense);
  return copy;
}

// Returns false if the plain kernel must run. plain() returns its result. The bias may be
// undefined.
template <class Plain>
static bool run(const cudnn::Convolution& key, const Tensor& first_, const Tensor& second_,
                const Tensor& bias_, const Tensor& result, Slot& slot, const Plain& plain) {
  if (!cudnn::available()) return note_fallback("no cuDNN"), false;
  const Tensor first = aligned(first_, key.format), second = aligned(second_, key.format);
  const Tensor bias = bias_.defined() ? aligned(bias_, kNCHW) : bias_;
  const Bindings bindings = {{cudnn::kFirst, first},
                             {cudnn::kSecond, second},
                             {cudnn::kBias, bias},
                             {cudnn::kResult, result}};
  const auto once = [&](const VendorPlan& plan) {
    plan.run(bindings);
    return PlannedCall::Tensors{result};
  };
  // A copy, because the plain kernel in a trial may evict the slot's.
  const auto call = planned_call(slot, cudnn::loaded(), key);
  return call->run(bindings, [&] {
    return PlannedCall::Trial{once, [&] { return PlannedCall::Tensors{plain()}; }};
  });
}

static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options, Slot& slot) {
  const cudnn::Convolution key{Half::forward, x.shape(),   w.shape(), conv2d_format(x, w),
                               x.dtype(),     b.defined(), options,   cudnn::filter()};
  const Tensor y(key.y(), x.dtype(), Device::cuda, key.format);
  const auto plain = [&] { return kernels::conv2d.plain(x, w, b, options, slot); };
  return run(key, x, w, b, y, slot, plain) ? y : plain();
}

static Tensor backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot) {
  const cudnn::Convolution key{Half::backward_x, x,     w.shape(), conv2d_format(dy, w),
                               dy.dtype(),       false, options,   cudnn::filter()};
  const Tensor dx(x, dy.dtype(), Device::cuda, key.format);
  const auto plain = [&] { return kernels::conv2d_backward_x.plain(dy, w, x, options, slot); };
  return run(key, dy, w, {}, dx, slot, plain) ? dx : plain();
}

static void backward_w(const Tensor& dy_, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot) {
  const cudnn::Convolution key{Half::backward_w, x.shape(), dw.shape(), conv2d_format(dy_, x),
                               x.dtype(),        false,     options,    cudnn::filter()};
  const Tensor dy = contiguous(dy_, key.format);
  const bool direct = dw.is_contiguous(key.format) && is_aligned(dw);
  const Tensor result = direct ? dw : Tensor(dw.shape(), dw.dtype(), Device::cuda, key.format);
  const auto plain = [&] {
    const Tensor dw_ = empty_like(dw);
    kernels::conv2d_backward_w.plain(dy, x, dw_, Tensor(), options, slot);
    return dw_;
  };
  if (!run(key, dy, x, {}, result, slot, plain))
    return kernels::conv2d_backward_w.plain(dy, x, dw, db, options, slot);
  direct ? dw.raise_version() : copy_into(dw, result);
  if (db.defined()) copy_into(db, kernels::sum(dy, {1, dw.dim(0), 1, 1}, 1).view_as(db.shape()));
}

static const bool gpu =
    kernels::conv2d.vendor_on(Device::cuda, forward, cudnn::kVendor) &&
    kernels::conv2d_backward_x.vendor_on(Device::cuda, backward_x, cudnn::kVendor) &&
    kernels::conv2d_backward_w.vendor_on(Device::cuda, backward_w, cudnn::kVendor);

}  // namespace bellows
