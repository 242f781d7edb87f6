// The sum of two batch norms, the end of a residual block whose shortcut is normalized.
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/base/work.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

namespace {

struct SavedNorm {
  Saved x, statistics, weight, bias;
  double eps;

  kernels::Normalization norm() const {
    const auto exact = [&](const Tensor& t) { return contiguous(cast(t, statistics().dtype())); };
    return {statistics(), exact(weight()), exact(bias()), eps};
  }
  // Backward of one norm; `residual`: of both. Appends dx, dw and db.
  kernels::NormalizedGrads run(const Tensor& dy, const Tensor& more, const Tensor& bits,
                               bool residual, Grads& grads) const {
    const DType dtype = statistics().dtype();
    const Tensor dw = cast(grad_out(weight()), dtype), db = cast(grad_out(bias()), dtype);
    Slot unused;
    const auto result = kernels::batch_norm_backward_in_steps(dy, more, x(), norm(), bits, residual,
                                                              dw, db, unused);
    grads.insert(grads.end(), {result.dx, cast(dw, weight().dtype()), cast(db, bias().dtype())});
    return result;
  }
};

kernels::Normalization normalization_of(const NormInput& n) {
  const Tensor statistics =
      kernels::channel_statistics(n.x, update_of(n.running, n.options.momentum, unbiased(n.x)));
  const auto exact = [&](const Tensor& t) { return contiguous(cast(t, statistics.dtype())); };
  return {statistics, exact(n.weight), exact(n.bias), n.options.eps};
}
SavedNorm saved(const NormInput& n, const Tensor& statistics) {
  return {Saved(n.x), Saved(statistics), Saved(n.weight), Saved(n.bias), n.options.eps};
}

}  // namespace

Tensor batch_norms_relu(const NormInput& a, const NormInput& b, Impl impl) {
  CHECK(a.x.shape() == b.x.shape() && a.x.dtype() == b.x.dtype(), "batch_norms_relu: a is ",
        a.x.dtype(), " ", a.x.shape(), ", b ", b.x.dtype(), " ", b.x.shape());
  if (impl == Impl::composed || !a.options.training || !b.options.training)
    return batch_norm_relu(a.x, batch_norm(b.x, b.weight, b.bias, b.running, b.options, b.slot),
                           a.weight, a.bias, a.running, a.options, Impl::fused, a.slot);
  for (const NormInput* n : {&a, &b}) {
    check_norm("batch_norms_relu", n->x.shape(), n->weight, n->bias, n->running, n->options);
    count_layout(n->x);
  }
  trace::count<"fuse.norm_add_act">();
  const kernels::Normalization norm_a = normalization_of(a), norm_b = normalization_of(b);
  const auto [y, bits] = kernels::batch_norms(a.x, norm_a, b.x, norm_b);
  if (!will_record(a.x, a.weight, a.bias, b.x, b.weight, b.bias)) return y;
  return record("batch_norms_relu", y, {a.x, a.weight, a.bias, b.x, b.weight, b.bias},
                [a = saved(a, norm_a.statistics), b = saved(b, norm_b.statistics),
                 bits = Saved(bits)](const Tensor& dy, const Tensor& more) {
                  Grads grads;
                  const Tensor g = a.run(dy, more, bits(), true, grads).dresidual;
                  b.run(g, {}, {}, false, grads);
                  return grads;
                });
}

// Forward reads both inputs for the statistics and again for y. Backward of the first norm reads x,
// dy and the bits, writes the masked dy, reads that and x, and writes dx; the second one reads the
// masked dy and x twice and writes dx.
static const AddWork work("batch_norms_relu", [](const RecordedOp& op) {
  const double x = result_bytes(op), bits = double(op.y.numel()) / 8;
  return OpWork{{0, 5 * x + bits}, {0, 11 * x + bits}, x};
});

static OpFn run_with(Impl impl) {
  return [=](const Inputs& in) {
    const auto norm = [&](size_t i) {
      const Tensor& x = in[i];
      const auto start = [&](double value) {
        return full({x.dim(1)}, value, precise(x.dtype()), x.device());
      };
      return NormInput{x, in[i + 1], in[i + 2], {start(0.25), start(2)}, {}, nullptr};
    };
    return batch_norms_relu(norm(0), norm(3), impl);
  };
}
static const Shapes kSmall{{3, 5, 4, 3}, {5}, {5}, {3, 5, 4, 3}, {5}, {5}},
    kLarge{{9, 48, 15, 14}, {48}, {48}, {9, 48, 15, 14}, {48}, {48}};
static const AddOp spec({.name = "batch_norms_relu",
                         .math = "y = relu(batch_norm(a) + batch_norm(b))",
                         .cases = {kSmall, {{6, 8}, {8}, {8}, {6, 8}, {8}, {8}}},
                         .run = run_with(Impl::fused),
                         .rejects = {{{3, 5, 4, 3}, {5}, {5}, {3, 5, 4, 2}, {5}, {5}}},
                         .large = {kLarge},
                         .composed = run_with(Impl::composed),
                         .rounds_each_step = true,
                         .close_f32 = false});

// ---- CPU: one norm after the other

static kernels::Normalized batch_norms_cpu(const Tensor& a, const kernels::Normalization& norm_a,
                                           const Tensor& b, const kernels::Normalization& norm_b) {
  const Tensor residual = kernels::batch_norm(b, norm_b, {}, NormAct::none).y;
  return kernels::batch_norm(a, norm_a, residual, NormAct::relu);
}
static const bool cpu = kernels::batch_norms.on(Device::cpu, batch_norms_cpu) &&
                        kernels::streams_norms.on(Device::cpu, [](const Tensor&) { return false; });

}  // namespace bellows
