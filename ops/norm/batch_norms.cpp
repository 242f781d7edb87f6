// The sum of two batch norms, the end of a residual block whose shortcut is normalized.
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/base/work.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

// A norm of x by the batch's statistics, which also update the running ones.
static kernels::Normalization by_batch(const Tensor& x, const NormLayer& norm) {
  return normalization(kernels::channel_statistics(x, update_of(norm, unbiased(x))), norm);
}

// Backward of one norm; `residual`: of both. Appends dx, dw and db to `all`, and returns the
// gradient of what was added.
static Tensor backward(const SavedNorm& norm, const Tensor& dy, const Tensor& more,
                       const Tensor& bits, bool residual, Grads& all) {
  const NormGrads grads(norm);
  const auto [dx, dresidual] = norm.backward(dy, more, bits, residual, grads);
  all.insert(all.end(), {dx, grads.of_weight(norm), grads.of_bias(norm)});
  return dresidual;
}

Tensor batch_norms_relu(const Tensor& a, const NormLayer& norm_a, const Tensor& b,
                        const NormLayer& norm_b, Impl impl) {
  CHECK(a.shape() == b.shape() && a.dtype() == b.dtype(), "batch_norms_relu: a is ", a.dtype(), " ",
        a.shape(), ", b ", b.dtype(), " ", b.shape());
  if (impl == Impl::composed || !norm_a.options.training || !norm_b.options.training)
    return batch_norm_relu(a, batch_norm(b, norm_b), norm_a);
  check_norm("batch_norms_relu", a.shape(), norm_a);
  check_norm("batch_norms_relu", b.shape(), norm_b);
  count_layout(a);
  count_layout(b);
  trace::count<"fuse.norm_add_act">();
  const kernels::Normalization of_a = by_batch(a, norm_a), of_b = by_batch(b, norm_b);
  const auto [y, bits] = kernels::batch_norms(a, of_a, b, of_b);
  if (!will_record(a, norm_a.weight, norm_a.bias, b, norm_b.weight, norm_b.bias)) return y;
  return record(
      "batch_norms_relu", y, {a, norm_a.weight, norm_a.bias, b, norm_b.weight, norm_b.bias},
      [a = SavedNorm(a, of_a.statistics, norm_a), b = SavedNorm(b, of_b.statistics, norm_b),
       bits = Saved(bits)](const Tensor& dy, const Tensor& more) {
        Grads grads;
        const Tensor g = backward(a, dy, more, bits(), true, grads);
        backward(b, g, {}, {}, false, grads);
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
      const auto start = [&](double value) {
        return full({in[i].dim(1)}, value, precise(in[i].dtype()), in[i].device());
      };
      return NormLayer{in[i + 1], in[i + 2], {start(0.25), start(2)}};
    };
    return batch_norms_relu(in[0], norm(0), in[3], norm(3), impl);
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
