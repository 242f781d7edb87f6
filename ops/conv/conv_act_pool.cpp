#include "ops/conv/conv_act_pool.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "ops/base/work.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/pool.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor composed(const Tensor& x, const Tensor& w, const Tensor& b, int64_t padding) {
  const Autocast off(DType::f32);
  return max_pool2d(relu(conv2d(x, w, b, {.padding = padding})), {.kernel = 2, .stride = 2});
}

Tensor conv_act_pool(const Tensor& x_, const Tensor& w, const Tensor& b, int64_t padding,
                     Impl impl) {
  const Tensor x = amp::full(x_);
  count_layout(x);
  const Shape conv = conv2d_shape("conv_act_pool", x.shape(), w.shape(), {1, padding});
  CHECK(b.defined() && b.shape() == Shape{w.dim(0)}, "conv_act_pool: w ", w.shape(),
        " needs b of shape ", Shape{w.dim(0)}, ", got ", b.shape());
  check_one_dtype("conv_act_pool", x, w, b);
  CHECK(conv[2] >= 2 && conv[3] >= 2, "conv_act_pool: the convolution of x ", x.shape(), " with w ",
        w.shape(), " leaves ", conv, ", too small to pool by 2");
  if (impl == Impl::composed) return composed(x, w, b, padding);
  trace::count<"fuse.conv_act_pool">();
  const auto [y, winner] = kernels::conv_act_pool(x, w, b, padding);
  if (!will_record(x, w, b)) return y;
  return record("conv_act_pool", y, {x, w, b},
                [x = Saved(x), w = Saved(w), b = Saved(b), winner = Saved(winner), padding,
                 needs_dx = needs_grad(x)](const Tensor& dy) {
                  const Tensor dw = grad_out(w()), db = grad_out(b());
                  const Tensor dx = kernels::conv_act_pool_backward(dy, winner(), x(), w(), dw, db,
                                                                    padding, needs_dx);
                  return Grads{dx, dw, db};
                });
}

// Each value of y is the largest of four of the convolution. A byte per value keeps its place.
static const AddWork work("conv_act_pool", [](const RecordedOp& op) {
  const Shape& w = op.inputs.at(1).shape;
  OpWork work = product(op, 2.0 * 4 * double(op.y.numel()) * double(w.numel() / w[0]));
  work.forward.bytes += double(op.y.numel());
  work.backward.bytes += double(op.y.numel());
  return work;
});

template <Impl impl, int64_t padding> static Tensor run(const Inputs& in) {
  return conv_act_pool(in[0], in[1], in[2], padding, impl);
}
template <int64_t padding>
static AddOp spec(const char* variant, const std::vector<Shapes>& cases,
                  const std::vector<Shapes>& rejects, const std::vector<Shapes>& large) {
  return AddOp({.name = "conv_act_pool",
                .math = "y = max_pool2d(relu(conv2d(x, w, b)), 2)",
                .cases = cases,
                .run = run<Impl::fused, padding>,
                .rejects = rejects,
                .variant = variant,
                .large = large,
                .composed = run<Impl::composed, padding>,
                .close_f32 = false});
}
static const AddOp specs[] = {
    spec<0>("", {{{2, 3, 5, 6}, {4, 3, 2, 3}, {4}}, {{18, 2, 6, 6}, {3, 2, 3, 3}, {3}}},
            {{{2, 3, 5, 5}, {4, 2, 3, 3}, {4}},
             {{2, 3, 5, 5}, {4, 3, 3, 3}, {3}},
             {{2, 3, 5, 5}, {4, 3, 5, 5}, {4}}},
            {{{33, 6, 14, 14}, {16, 6, 5, 5}, {16}}, {{5, 3, 12, 11}, {37, 3, 3, 3}, {37}}}),
    spec<2>("padding 2", {{{2, 1, 6, 5}, {3, 1, 5, 5}, {3}}, {{17, 1, 6, 6}, {2, 1, 5, 5}, {2}}},
            {}, {{{70, 1, 28, 28}, {6, 1, 5, 5}, {6}}}),
};

}  // namespace bellows
