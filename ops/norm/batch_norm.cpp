#include "ops/norm/batch_norm.h"
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/base/work.h"
#include "ops/elementwise.h"

namespace bellows {

// ---- the ops

DType precise(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

void check_norm(const char* op, const Shape& x, const NormLayer& norm) {
  CHECK(x.rank() == 4 || x.rank() == 2, op, ": needs x (N, C) or (N, C, H, W), got ", x);
  const Shape channels{x[1]};
  for (const Tensor& t : {norm.weight, norm.bias, norm.running.mean, norm.running.var})
    CHECK(t.shape() == channels, op, ": x ", x, " needs weight, bias and running statistics of ",
          "shape ", channels, ", got ", t.shape());
  CHECK(!norm.options.training || x.numel() > x[1], op, ": x ", x,
        " has one element a channel, which has no variance to train with; if it is the last batch "
        "of an epoch, write  data.drop_last=true, else raise data.batch_size or lower "
        "toggles.gradient_accumulation");
}

double unbiased(const Tensor& x) {
  const double n = double(x.numel()) / double(x.dim(1));
  return n / (n - 1);
}

// Returns the running statistics in the form of kernels::channel_statistics.
static Tensor running_statistics(const Tensor& x, const RunningStatistics& running) {
  const int64_t C = x.dim(1);
  const Tensor statistics({2, C}, precise(x.dtype()), x.device());
  copy_into(statistics.view({C}, {1}, 0), running.mean);
  copy_into(statistics.view({C}, {1}, C), running.var);
  return statistics;
}

RunningUpdate update_of(const NormLayer& norm, double unbiased) {
  if (replaying()) return {};
  trace::count<"norm.batches">();
  for (const Tensor& t : {norm.running.mean, norm.running.var, norm.running.batches})
    if (t.defined()) t.raise_version();
  return {norm.running, norm.options.momentum, unbiased};
}

static Tensor exact(const Tensor& t, DType dtype) { return contiguous(cast(t, dtype)); }

kernels::Normalization normalization(const Tensor& statistics, const NormLayer& norm) {
  const DType dtype = statistics.dtype();
  return {statistics, exact(norm.weight, dtype), exact(norm.bias, dtype), norm.options.eps};
}

NormGrads::NormGrads(const SavedNorm& norm)
    : dw(cast(grad_out(norm.weight()), norm.statistics().dtype())),
      db(cast(grad_out(norm.bias()), norm.statistics().dtype())) {}

static Tensor normalize(const char* op, const Tensor& x, const Tensor& residual, bool relu,
                        const NormLayer& layer) {
  check_norm(op, x.shape(), layer);
  count_layout(x);
  const bool training = layer.options.training;
  const Tensor statistics = training ? kernels::channel_statistics(x, update_of(layer, unbiased(x)))
                                     : running_statistics(x, layer.running);
  const auto [y, bits] = kernels::batch_norm(x, normalization(statistics, layer), residual, relu);
  if (!will_record(x, residual, layer.weight, layer.bias)) return y;
  return record(op, y, {x, residual, layer.weight, layer.bias},
                [saved = SavedNorm(x, statistics, layer), bits = Saved(bits), training,
                 needs_residual = needs_grad(residual)](const Tensor& dy, const Tensor& more) {
                  const NormGrads grads(saved);
                  const kernels::Normalization norm = saved.norm();
                  const auto [g, mask] = kernels::batch_norm_backward_w(
                      dy, more, saved.x(), norm, bits(), needs_residual, grads.dw, grads.db);
                  // In evaluation no gradient flows through the statistics.
                  const Tensor dx = kernels::batch_norm_backward_x(
                      g, saved.x(), norm, training ? grads.dw : Tensor(),
                      training ? grads.db : Tensor(), mask);
                  return Grads{dx, needs_residual ? g : Tensor(), grads.of_weight(saved),
                               grads.of_bias(saved)};
                });
}

Tensor batch_norm(const Tensor& x, const NormLayer& norm) {
  return normalize("batch_norm", x, {}, false, norm);
}

Tensor batch_norm_relu(const Tensor& x, const Tensor& residual, const NormLayer& norm, Impl impl) {
  CHECK(!residual.defined() || (residual.shape() == x.shape() && residual.dtype() == x.dtype()),
        "batch_norm_relu: x is ", x.dtype(), " ", x.shape(), ", the residual ", residual.dtype(),
        " ", residual.shape());
  if (impl == Impl::fused) {
    residual.defined() ? trace::count<"fuse.norm_add_act">() : trace::count<"fuse.norm_act">();
    return normalize("batch_norm_relu", x, residual, true, norm);
  }
  const Tensor y = batch_norm(x, norm);
  return relu(residual.defined() ? add(y, residual) : y);
}

// ---- specs

// Inputs: x, weight, bias and optionally the residual.
static OpFn run_with(bool relu, Impl impl, bool training) {
  return [=](const Inputs& in) {
    const Tensor& x = in[0];
    const DType dtype = precise(x.dtype());
    const auto start = [&](double value) { return full({x.dim(1)}, value, dtype, x.device()); };
    const NormLayer norm{in[1], in[2], {start(0.25), start(2)}, {.training = training}};
    if (!relu) return batch_norm(x, norm);
    return batch_norm_relu(x, in.size() > 3 ? in[3] : Tensor(), norm, impl);
  };
}
// Inputs x, residual, weight, bias. Forward reads x for the statistics, reads it again with the
// residual, and writes y and one bit per element for relu. Backward reads x and dy twice and writes
// dx. It reads the bits twice, too, unless it writes the masked dy: for a residual, or if dy is a
// sum that it forms.
static OpWork work_of_norm(const RecordedOp& op) {
  const double x = result_bytes(op), residual = op.inputs.at(1).bytes(),
               bits = op.name == "batch_norm_relu" ? double(op.y.numel()) / 8 : 0;
  const bool keeps = residual > 0;
  return {{0, 3 * x + residual + bits},
          {0, 5 * x + residual + (keeps ? 1 : 2) * bits},
          keeps ? x : 2 * x - bits};
}
static const AddWork works[] = {{"batch_norm", work_of_norm}, {"batch_norm_relu", work_of_norm}};

static AddOp spec(const char* name, const char* math, const char* variant, bool relu, bool training,
                  std::vector<Shapes> cases, std::vector<Shapes> rejects,
                  std::vector<Shapes> large) {
  return AddOp({.name = name,
                .math = math,
                .cases = std::move(cases),
                .run = run_with(relu, Impl::fused, training),
                .rejects = std::move(rejects),
                .variant = variant,
                .large = std::move(large),
                .composed = relu ? run_with(relu, Impl::composed, training) : nullptr,
                .close_f32 = false});
}
static constexpr const char* kMath = "y = (x - mean) / sqrt(var + eps) * weight + bias";
static constexpr const char* kRelu = "y = relu(batch_norm(x))";
static constexpr const char* kAddRelu = "y = relu(batch_norm(x) + residual)";
static const AddOp specs[] = {
    spec("batch_norm", kMath, "", false, true,
         {{{3, 5, 4, 3}, {5}, {5}}, {{6, 3}, {3}, {3}}, {{2, 17, 1, 2}, {17}, {17}}},
         {{{3, 5, 4}, {5}, {5}},
          {{3, 5, 4, 3}, {4}, {5}},
          {{3, 5, 4, 3}, {5}, {3}},
          {{1, 5}, {5}, {5}}},
         {{{9, 48, 15, 14}, {48}, {48}}}),
    spec("batch_norm", kMath, "evaluation", false, false, {{{3, 5, 4, 3}, {5}, {5}}}, {}, {}),
    spec("batch_norm_relu", kRelu, "", true, true,
         {{{3, 5, 4, 3}, {5}, {5}}, {{6, 3}, {3}, {3}}, {{2, 16, 1, 2}, {16}, {16}}},
         {{{3, 5, 4}, {5}, {5}}}, {{{9, 48, 15, 14}, {48}, {48}}}),
    spec("batch_norm_relu", kRelu, "evaluation", true, false, {{{3, 5, 4, 3}, {5}, {5}}}, {}, {}),
    spec("batch_norm_relu", kAddRelu, "residual", true, true,
         {{{3, 5, 4, 3}, {5}, {5}, {3, 5, 4, 3}}, {{2, 8, 3, 3}, {8}, {8}, {2, 8, 3, 3}}},
         {{{3, 5, 4, 3}, {5}, {5}, {3, 5, 4, 2}}},
         {{{9, 48, 15, 14}, {48}, {48}, {9, 48, 15, 14}}}),
};

}  // namespace bellows
