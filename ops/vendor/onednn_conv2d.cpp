// conv2d with oneDNN, in f32, bf16 and f16. NHWC images are used as they are. NCHW images and all
// weights are converted to the layout that the primitive prefers.
#include <omp.h>
#include "core/tensor/copy.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/vendor/onednn.h"

namespace bellows {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// Everything that the primitives depend on.
struct Key {
  Shape x, w;
  bool bias;
  Conv2dOptions options;
  DType dtype;
  MemoryFormat images, weights;         // NCHW or NHWC
  int threads = omp_get_max_threads();  // primitives are created for a fixed thread count
  bool operator==(const Key&) const = default;

  Shape y() const { return conv2d_shape("conv2d", x, w, options); }
  memory::dims stride() const { return {options.stride, options.stride}; }
  memory::dims padding() const { return {options.padding, options.padding}; }
  bool nhwc() const { return images == kNHWC; }
  memory::desc image(const Shape& t) const {
    return onednn::desc(t, nhwc() ? Tag::nhwc : Tag::nchw, dtype);
  }
  memory::desc worked_on(const Shape& t) const {  // layout of an image inside the primitive
    return onednn::desc(t, nhwc() ? Tag::nhwc : Tag::any, dtype);
  }
  memory::desc x_desc() const { return worked_on(x); }
  memory::desc y_desc() const { return worked_on(y()); }
  memory::desc w_desc() const {
    return onednn::desc(w, weights == kNHWC ? Tag::ohwi : Tag::oihw, dtype);
  }
  memory::desc any_w() const { return onednn::desc(w, Tag::any, dtype); }
  memory::desc b_desc() const {
    return bias ? onednn::desc({w[0]}, Tag::a, dtype) : memory::desc();
  }
};

dnnl::convolution_forward::primitive_desc forward_desc(const Key& key) {
  return {onednn::engine(),
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          key.x_desc(),
          key.any_w(),
          key.b_desc(),
          key.y_desc(),
          key.stride(),
          key.padding(),
          key.padding()};
}

struct Forward {
  explicit Forward(const Key& key) : Forward(key, forward_desc(key)) {}
  Forward(const Key& key, const dnnl::convolution_forward::primitive_desc& p)
      : x(key.image(key.x), p.src_desc()),
        y(p.dst_desc(), key.image(key.y())),
        weights(key.w_desc(), p.weights_desc()),
        primitive(dnnl::convolution_forward(p)) {}
  onednn::Reorder x, y;
  onednn::Reordered weights;
  onednn::Plan primitive;
};

struct BackwardX {
  explicit BackwardX(const Key& key)
      : BackwardX(key,
                  {onednn::engine(), dnnl::algorithm::convolution_direct, key.x_desc(), key.any_w(),
                   key.y_desc(), key.stride(), key.padding(), key.padding(), forward_desc(key)}) {}
  BackwardX(const Key& key, const dnnl::convolution_backward_data::primitive_desc& p)
      : dy(key.image(key.y()), p.diff_dst_desc()),
        dx(p.diff_src_desc(), key.image(key.x)),
        weights(key.w_desc(), p.weights_desc()),
        primitive(dnnl::convolution_backward_data(p)) {}
  onednn::Reorder dy, dx;
  onednn::Reordered weights;
  onednn::Plan primitive;
};

struct BackwardW {
  explicit BackwardW(const Key& key)
      : BackwardW(key, {onednn::engine(), dnnl::algorithm::convolution_direct, key.x_desc(),
                        key.any_w(), key.b_desc(), key.y_desc(), key.stride(), key.padding(),
                        key.padding(), forward_desc(key)}) {}
  BackwardW(const Key& key, const dnnl::convolution_backward_weights::primitive_desc& p)
      : x(key.image(key.x), p.src_desc()),
        dy(key.image(key.y()), p.diff_dst_desc()),
        primitive(dnnl::convolution_backward_weights(p)),
        reorder(dnnl::reorder(
            {onednn::engine(), p.diff_weights_desc(), onednn::engine(), key.w_desc()})),
        blocked({int64_t(p.diff_weights_desc().get_size())}, DType::u8) {}
  onednn::Reorder x, dy;
  onednn::Plan primitive, reorder;
  Tensor blocked;  // dw as the primitive writes it
};

}  // namespace

// Weights in neither NCHW nor NHWC are copied to NCHW.
static Key key_of(const Shape& x, const Tensor& w, bool bias, const Conv2dOptions& options,
                  DType dtype, const MemoryFormat& images) {
  return {x, w.shape(), bias, options, dtype, images, format_of(w) == kNHWC ? kNHWC : kNCHW};
}

static Tensor forward(const Tensor& x_, const Tensor& w_, const Tensor& b_,
                      const Conv2dOptions& options, Slot& slot) {
  if (!onednn::computes(x_.dtype())) return kernels::conv2d.plain(x_, w_, b_, options, slot);
  const Key key = key_of(x_.shape(), w_, b_.defined(), options, x_.dtype(), conv2d_format(x_, w_));
  Forward& conv = onednn::plan_for<Forward>(slot, key);
  const Tensor y(key.y(), key.dtype, Device::cpu, key.images), out = conv.y.room(y);
  const Tensor x = conv.x(contiguous(x_, key.images)), w = contiguous(w_, key.weights);
  const Tensor b = b_.defined() ? contiguous(b_) : b_;
  conv.primitive.run({{DNNL_ARG_SRC, x},
                      {DNNL_ARG_WEIGHTS, conv.weights.of(w)},
                      {DNNL_ARG_BIAS, b},
                      {DNNL_ARG_DST, out}});
  conv.y.finish(out, y);
  return y;
}

static Tensor backward_x(const Tensor& dy_, const Tensor& w_, const Shape& x,
                         const Conv2dOptions& options, Slot& slot) {
  if (!onednn::computes(dy_.dtype()))
    return kernels::conv2d_backward_x.plain(dy_, w_, x, options, slot);
  const Key key = key_of(x, w_, false, options, dy_.dtype(), conv2d_format(dy_, w_));
  BackwardX& conv = onednn::plan_for<BackwardX>(slot, key);
  const Tensor dx(x, key.dtype, Device::cpu, key.images), out = conv.dx.room(dx);
  const Tensor dy = conv.dy(contiguous(dy_, key.images)), w = contiguous(w_, key.weights);
  conv.primitive.run(
      {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, conv.weights.of(w)}, {DNNL_ARG_DIFF_SRC, out}});
  conv.dx.finish(out, dx);
  return dx;
}

// Cases in which oneDNN 3.2 must not be used. f16 has only the slow reference implementation.
// jit_1x1 with a stride and fewer than 16 NHWC channels writes past the end of its scratchpad: in
// f32 always, in bf16 where the threads' shares of the batch differ.
static bool unfit_for_backward_w(const Key& key) {
  return key.dtype == DType::f16 ||
         (key.nhwc() && key.options.stride > 1 && key.w[1] < 16 && key.w[2] * key.w[3] == 1);
}

static void backward_w(const Tensor& dy_, const Tensor& x_, const Tensor& dw_, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot) {
  if (!onednn::computes(dy_.dtype()))
    return kernels::conv2d_backward_w.plain(dy_, x_, dw_, db, options, slot);
  const Key key =
      key_of(x_.shape(), dw_, db.defined(), options, x_.dtype(), conv2d_format(dy_, x_));
  if (unfit_for_backward_w(key))
    return conv2d_cpu::product_fits(dy_, x_, dw_, db, options, slot)
               ? conv2d_cpu::backward_w_by_product(dy_, x_, dw_, db, options, slot)
               : kernels::conv2d_backward_w.plain(dy_, x_, dw_, db, options, slot);
  BackwardW& conv = onednn::plan_for<BackwardW>(slot, key);
  const Tensor dy = conv.dy(contiguous(dy_, key.images)), x = conv.x(contiguous(x_, key.images));
  conv.primitive.run({{DNNL_ARG_SRC, x},
                      {DNNL_ARG_DIFF_DST, dy},
                      {DNNL_ARG_DIFF_WEIGHTS, conv.blocked},
                      {DNNL_ARG_DIFF_BIAS, db}});
  write_in(key.weights, dw_, [&](const Tensor& dw) {
    conv.reorder.run({{DNNL_ARG_FROM, conv.blocked}, {DNNL_ARG_TO, dw}});
    dw.raise_version();
  });
  if (db.defined()) db.raise_version();
}

// Forward and dx are bitwise equal for any thread count; dw has one partial sum per thread
// (measured).
static const bool vendor =
    kernels::conv2d.vendor_on(Device::cpu, forward,
                              {.thread_invariant = true, .version = onednn::version}) &&
    kernels::conv2d_backward_x.vendor_on(Device::cpu, backward_x,
                                         {.thread_invariant = true, .version = onednn::version}) &&
    kernels::conv2d_backward_w.vendor_on(Device::cpu, backward_w, {.version = onednn::version});

}  // namespace bellows
