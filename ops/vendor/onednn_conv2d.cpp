// oneDNN's convolutions, f32 and bf16, images in NHWC; weights in the order that the primitive
// likes best.
#include "core/copy.h"
#include "ops/conv2d.h"
#include "ops/vendor/onednn.h"

namespace bellows {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// All that the primitives depend on.
struct Key {
  Shape x, w;
  bool bias;
  Conv2dOptions options;
  DType dtype;
  bool operator==(const Key&) const = default;

  Shape y() const { return conv2d_shape("conv2d", x, w, options); }
  memory::dims stride() const { return {options.stride, options.stride}; }
  memory::dims padding() const { return {options.padding, options.padding}; }
  memory::desc x_desc() const { return onednn::desc(x, Tag::nhwc, dtype); }
  memory::desc y_desc() const { return onednn::desc(y(), Tag::nhwc, dtype); }
  memory::desc w_desc() const { return onednn::desc(w, Tag::oihw, dtype); }
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
      : weights(key.w_desc(), p.weights_desc()),
        primitive(dnnl::convolution_forward(p), {{DNNL_ARG_SRC, p.src_desc()},
                                                 {DNNL_ARG_WEIGHTS, p.weights_desc()},
                                                 {DNNL_ARG_BIAS, p.bias_desc()},
                                                 {DNNL_ARG_DST, p.dst_desc()}}) {}
  onednn::Reordered weights;
  onednn::Bound primitive;
};

struct BackwardX {
  explicit BackwardX(const Key& key)
      : BackwardX(key,
                  {onednn::engine(), dnnl::algorithm::convolution_direct, key.x_desc(), key.any_w(),
                   key.y_desc(), key.stride(), key.padding(), key.padding(), forward_desc(key)}) {}
  BackwardX(const Key& key, const dnnl::convolution_backward_data::primitive_desc& p)
      : weights(key.w_desc(), p.weights_desc()),
        primitive(dnnl::convolution_backward_data(p), {{DNNL_ARG_DIFF_DST, p.diff_dst_desc()},
                                                       {DNNL_ARG_WEIGHTS, p.weights_desc()},
                                                       {DNNL_ARG_DIFF_SRC, p.diff_src_desc()}}) {}
  onednn::Reordered weights;
  onednn::Bound primitive;
};

struct BackwardW {
  explicit BackwardW(const Key& key)
      : BackwardW(key, {onednn::engine(), dnnl::algorithm::convolution_direct, key.x_desc(),
                        key.any_w(), key.b_desc(), key.y_desc(), key.stride(), key.padding(),
                        key.padding(), forward_desc(key)}) {}
  BackwardW(const Key& key, const dnnl::convolution_backward_weights::primitive_desc& p)
      : primitive(dnnl::convolution_backward_weights(p),
                  {{DNNL_ARG_SRC, p.src_desc()},
                   {DNNL_ARG_DIFF_DST, p.diff_dst_desc()},
                   {DNNL_ARG_DIFF_WEIGHTS, p.diff_weights_desc()},
                   {DNNL_ARG_DIFF_BIAS, p.diff_bias_desc()}}),
        reorder(dnnl::reorder(
                    {onednn::engine(), p.diff_weights_desc(), onednn::engine(), key.w_desc()}),
                {{DNNL_ARG_FROM, p.diff_weights_desc()}, {DNNL_ARG_TO, key.w_desc()}}),
        blocked({int64_t(p.diff_weights_desc().get_size())}, DType::u8) {
    primitive.set(DNNL_ARG_DIFF_WEIGHTS, blocked.bytes());
    reorder.set(DNNL_ARG_FROM, blocked.bytes());
  }
  onednn::Bound primitive, reorder;
  Tensor blocked;  // dw as the primitive writes it
};

template <class Plan> Plan& plan(Slot& slot, const Key& key) {
  return slot.get<Plan>(key, [&] { return Plan(key); });
}

}  // namespace

static Tensor forward(const Tensor& x_, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options, Slot& slot) {
  if (!onednn::computes(x_.dtype())) return kernels::conv2d.plain(x_, w, b, options, slot);
  const Key key{x_.shape(), w.shape(), b.defined(), options, x_.dtype()};
  auto& [weights, primitive] = plan<Forward>(slot, key);
  const Tensor x = contiguous(x_, kNHWC), y(key.y(), x.dtype(), Device::cpu, kNHWC);
  const Tensor w_ = contiguous(w), b_ = b.defined() ? contiguous(b) : b;
  primitive.set(DNNL_ARG_SRC, x.bytes());
  primitive.set(DNNL_ARG_WEIGHTS, weights.of(w_));
  if (b.defined()) primitive.set(DNNL_ARG_BIAS, b_.bytes());
  primitive.set(DNNL_ARG_DST, y.bytes());
  primitive.run();
  return y;
}

static Tensor backward_x(const Tensor& dy_, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot) {
  if (!onednn::computes(dy_.dtype()))
    return kernels::conv2d_backward_x.plain(dy_, w, x, options, slot);
  auto& [weights, primitive] = plan<BackwardX>(slot, {x, w.shape(), false, options, dy_.dtype()});
  const Tensor dy = contiguous(dy_, kNHWC), dx(x, dy.dtype(), Device::cpu, kNHWC);
  const Tensor w_ = contiguous(w);
  primitive.set(DNNL_ARG_DIFF_DST, dy.bytes());
  primitive.set(DNNL_ARG_WEIGHTS, weights.of(w_));
  primitive.set(DNNL_ARG_DIFF_SRC, dx.bytes());
  primitive.run();
  return dx;
}

static void backward_w(const Tensor& dy_, const Tensor& x_, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot) {
  if (!onednn::computes(dy_.dtype()))
    return kernels::conv2d_backward_w.plain(dy_, x_, dw, db, options, slot);
  auto& [primitive, reorder, blocked] =
      plan<BackwardW>(slot, {x_.shape(), dw.shape(), db.defined(), options, x_.dtype()});
  const Tensor dy = contiguous(dy_, kNHWC), x = contiguous(x_, kNHWC);
  primitive.set(DNNL_ARG_SRC, x.bytes());
  primitive.set(DNNL_ARG_DIFF_DST, dy.bytes());
  if (db.defined()) primitive.set(DNNL_ARG_DIFF_BIAS, db.bytes());
  primitive.run();
  reorder.set(DNNL_ARG_TO, dw.bytes());
  reorder.run();
  dw.raise_version();
  if (db.defined()) db.raise_version();
}

// Forward and dx have the same bits for any number of threads; dw is summed per thread (measured).
static const bool vendor =
    kernels::conv2d.vendor_on(Device::cpu, forward,
                              {.thread_invariant = true, .version = onednn::version}) &&
    kernels::conv2d_backward_x.vendor_on(Device::cpu, backward_x,
                                         {.thread_invariant = true, .version = onednn::version}) &&
    kernels::conv2d_backward_w.vendor_on(Device::cpu, backward_w, {.version = onednn::version});

}  // namespace bellows
