// conv_norm with cuDNN: the convolution reads its raw input once and normalizes it in registers.
// It also returns the statistics of its output y, as sum and sum of squares in f32, taken before y
// is rounded.
#include <optional>
#include "core/device/launch.cuh"
#include "core/tensor/copy.h"
#include "ops/conv/conv_norm.h"
#include "ops/vendor/cudnn_conv_norm.h"

namespace bellows {

namespace cudnn {

namespace {
struct Layouts {
  explicit Layouts(const ConvNormKey& c)
      : x(c.x, kNHWC, DType::f16),
        w(c.w, kNHWC, DType::f16),
        y(conv2d_shape("conv2d", c.x, c.w, c.options), kNHWC, DType::f16),
        low_of_x({1, c.x[1], 1, 1}, kNHWC, DType::f16),
        of_x({1, c.x[1], 1, 1}, kNHWC, DType::f32),
        of_y({1, c.w[0], 1, 1}, kNHWC, DType::f32) {}
  Layout x, w, y, low_of_x, of_x, of_y;
};

// relu(scale * x + shift)
Id normalized(ConvNormGraph& d, const Layouts& layouts) {
  ConvNormTensors& t = d.tensors;
  t.scale = d.graph.input(layouts.low_of_x), t.shift = d.graph.input(layouts.low_of_x);
  return d.graph.relu(d.graph.add(d.graph.multiply(t.x, t.scale), t.shift));
}

void describe_forward(ConvNormGraph& d, const ConvNormKey& c, const Layouts& layouts) {
  ConvNormTensors& t = d.tensors;
  t.x = d.graph.input(layouts.x), t.w = d.graph.input(layouts.w);
  t.y = d.graph.conv2d(c.norm ? normalized(d, layouts) : t.x, t.w, c.options);
  const auto sums = d.graph.channel_sums(t.y);
  t.sum = sums.sum, t.squares = sums.squares;
  d.graph.output(t.y, layouts.y);
  d.graph.output(t.sum, layouts.of_y);
  d.graph.output(t.squares, layouts.of_y);
}

void describe_backward_w(ConvNormGraph& d, const ConvNormKey& c, const Layouts& layouts) {
  ConvNormTensors& t = d.tensors;
  t.y = d.graph.input(layouts.y), t.x = d.graph.input(layouts.x);
  t.dw = d.graph.conv2d_backward_w(t.y, normalized(d, layouts), c.options);
  d.graph.output(t.dw, layouts.w);
}

// norm(x) in the order that cuDNN's patterns match: ((x - mean) * inverse) * weight + bias.
void describe_backward_x(ConvNormGraph& d, const ConvNormKey& c, const Layouts& layouts) {
  ConvNormTensors& t = d.tensors;
  Graph& g = d.graph;
  t.y = g.input(layouts.y), t.w = g.input(layouts.w), t.x = g.input(layouts.x);
  for (Id* const id : {&t.mean, &t.inverse, &t.weight, &t.bias}) *id = g.input(layouts.of_x);
  const Id din = g.conv2d_backward_x(t.y, t.w, c.options);
  g.inside(din, {c.x, kNHWC, DType::f32});
  const Id scaled = g.multiply(g.multiply(g.subtract(t.x, t.mean), t.inverse), t.weight);
  t.dnorm = g.relu_backward(din, g.add(scaled, t.bias));
  const auto sums = g.batch_norm_backward_w(t.dnorm, t.x, t.weight, t.mean, t.inverse);
  t.dweight = sums.dw, t.dbias = sums.db;
  t.scale_dy = sums.scale_dy, t.scale_x = sums.scale_x, t.rest = sums.shift;
  g.output(t.dnorm, layouts.x);
  for (const Id id : {t.dweight, t.dbias, t.scale_dy, t.scale_x, t.rest})
    g.output(id, layouts.of_x);
}
}  // namespace

ConvNormGraph describe(const ConvNormKey& c) {
  const Layouts layouts(c);
  // cuDNN requires f16 intermediates for dw.
  ConvNormGraph d{c.half == Half::backward_w ? Graph(DType::f16, DType::f16) : Graph(DType::f16)};
  if (c.half == Half::forward)
    describe_forward(d, c, layouts);
  else if (c.half == Half::backward_w)
    describe_backward_w(d, c, layouts);
  else
    describe_backward_x(d, c, layouts);
  return d;
}

std::ostream& operator<<(std::ostream& out, const ConvNormKey& c) {
  constexpr const char* halves[] = {"conv_norm", "conv_norm_backward_x", "conv_norm_backward_w"};
  return out << halves[int(c.half)] << ' ' << c.x << c.w << (c.norm ? " norm " : " ") << c.options
             << ' ' << c.filter;
}

}  // namespace cudnn

namespace {

using cudnn::aligned;
using cudnn::Half;

using Planned = cudnn::Planned<cudnn::ConvNormTensors>;

// Returns nothing, for the plain kernel, if cuDNN is missing or does not support the case.
std::optional<Planned> find(Half half, const Tensor& x, const Tensor& w, bool norm,
                            const Conv2dOptions& options, Slot& slot) {
  if (!cudnn::takes_conv_norm(x, w) || !cudnn::available()) return std::nullopt;
  const cudnn::ConvNormKey key{half, x.shape(), w.shape(), norm, options, cudnn::filter()};
  return slot.get<Planned>(key, [&] { return Planned(key, cudnn::describe); });
}

// ---- per-channel kernels: one thread per channel, blocks of 256

// Computes scale and shift of norm(x) = scale * x + shift, and inverse = 1 / sqrt(var + eps). Reads
// 16 and writes 8 bytes per channel.
__global__ void prologue(const float* mean, const float* var, const float* weight,
                         const float* bias, double eps, int64_t channels, F16* scale, F16* shift,
                         float* inverse) {
  await_predecessor();
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    const double deviation = sqrt(var[c] + eps), s = weight[c] / deviation;
    scale[c] = F16(float(s));
    shift[c] = F16(float(bias[c] - mean[c] * s));
    inverse[c] = float(1 / deviation);
  }
}
// Converts (sum, sum of squares) to (mean, variance) in place. Reads and writes 8 bytes per
// channel.
__global__ void statistics_of(float* sum, float* squares, double n, int64_t channels) {
  await_predecessor();
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    const double mean = sum[c] / n, square = squares[c] / n;
    sum[c] = float(mean);
    squares[c] = float(fmax(square - mean * mean, 0.0));
  }
}

struct Prologue {
  Prologue(const Tensor& statistics, const Tensor& weight, const Tensor& bias, double eps)
      : both({2, weight.numel()}, DType::f16, weight.device()),
        inverse(weight.shape(), DType::f32, weight.device()) {
    const int64_t C = weight.numel();
    const float* const mean = statistics.ptr<float>();
    launch(prologue, grid_of(C), mean, mean + C, weight.ptr<float>(), bias.ptr<float>(), eps, C,
           both.ptr<F16>(), both.ptr<F16>() + C, inverse.ptr<float>());
  }
  const void* scale() const { return both.bytes(); }
  const void* shift() const { return both.ptr<F16>() + both.dim(1); }
  Tensor both, inverse;
};

}  // namespace

static kernels::ConvNorm forward(const Tensor& x_, const Tensor& statistics, const Tensor& weight,
                                 const Tensor& bias, double eps, const Tensor& w_,
                                 const Conv2dOptions& options, Slot& slot) {
  const bool norm = statistics.defined();
  const auto plain = [&] {
    return kernels::conv_norm.plain(x_, statistics, weight, bias, eps, w_, options, slot);
  };
  const std::optional<Planned> planned = find(Half::forward, x_, w_, norm, options, slot);
  if (!planned) return plain();
  const cudnn::ConvNormTensors& t = planned->tensors;
  const Tensor x = aligned(contiguous(x_, kNHWC)), w = aligned(contiguous(w_, kNHWC));
  const Tensor y(conv2d_shape("conv2d", x.shape(), w.shape(), options), DType::f16, Device::cuda,
                 kNHWC);
  const int64_t K = y.dim(1);
  const Tensor sums({2, K}, DType::f32, Device::cuda);
  float *const sum = sums.ptr<float>(), *const squares = sum + K;
  const auto on = norm ? std::optional<Prologue>({statistics, weight, bias, eps}) : std::nullopt;
  const bool done = planned->call->run({{t.x, x},
                                        {t.w, w},
                                        {t.scale, norm ? on->scale() : nullptr},
                                        {t.shift, norm ? on->shift() : nullptr},
                                        {t.y, y},
                                        {t.sum, sum},
                                        {t.squares, squares}});
  if (!done) return plain();
  launch(statistics_of, grid_of(K), sum, squares, double(y.numel()) / double(K), K);
  return {y, sums};
}

static Tensor backward(const Tensor& dy_, const Tensor& x_, const Tensor& statistics,
                       const Tensor& weight_, const Tensor& bias_, double eps, const Tensor& w_,
                       const Conv2dOptions& options, const Tensor& dw_, const Tensor& dweight,
                       const Tensor& dbias, Slot& slot) {
  const auto plain = [&] {
    return kernels::conv_norm_backward.plain(dy_, x_, statistics, weight_, bias_, eps, w_, options,
                                             dw_, dweight, dbias, slot);
  };
  const std::optional<Planned> for_w = find(Half::backward_w, x_, w_, true, options, slot);
  const std::optional<Planned> for_x = find(Half::backward_x, x_, w_, true, options, slot);
  if (!for_w || !for_x) return plain();
  const Tensor x = aligned(contiguous(x_, kNHWC)), w = aligned(contiguous(w_, kNHWC));
  const Tensor dy = aligned(contiguous(dy_, kNHWC));
  const Tensor weight = aligned(weight_), bias = aligned(bias_);
  const Prologue on(statistics, weight, bias, eps);

  const Tensor dw(w.shape(), DType::f16, Device::cuda, kNHWC);
  const cudnn::ConvNormTensors& a = for_w->tensors;
  const bool have_dw = for_w->call->run(
      {{a.y, dy}, {a.x, x}, {a.scale, on.scale()}, {a.shift, on.shift()}, {a.dw, dw}});
  if (!have_dw) return plain();
  copy_into(dw_, dw);

  const int64_t C = x.dim(1);
  const Tensor dnorm = empty_like(x), sums({5, C}, DType::f32, Device::cuda);
  const auto row = [&](int64_t i) { return sums.ptr<float>() + i * C; };
  const cudnn::ConvNormTensors& b = for_x->tensors;
  const bool have_dx = for_x->call->run({{b.y, dy},
                                         {b.w, w},
                                         {b.x, x},
                                         {b.mean, statistics},
                                         {b.inverse, on.inverse},
                                         {b.weight, weight},
                                         {b.bias, bias},
                                         {b.dnorm, dnorm},
                                         {b.dweight, row(0)},
                                         {b.dbias, row(1)},
                                         {b.scale_dy, row(2)},
                                         {b.scale_x, row(3)},
                                         {b.rest, row(4)}});
  if (!have_dx) return plain();
  copy_into(dweight, sums.view({C}, {1}, 0));
  copy_into(dbias, sums.view({C}, {1}, C));
  return kernels::batch_norm_backward_x(dnorm, x, {statistics, weight, bias, eps}, dweight, dbias,
                                        {});
}

static const bool gpu =
    kernels::conv_norm.vendor_on(Device::cuda, forward, cudnn::kVendor) &&
    kernels::conv_norm_backward.vendor_on(Device::cuda, backward, cudnn::kVendor);

}  // namespace bellows
