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
             << (c.bias ? " bias " : " ") << c.options << (c.filter.tf32 ? " tf32" : "")
             << (c.filter.deterministic ? " deterministic " : " ") << c.filter.workspace_bytes;
}

}  // namespace cudnn

namespace {

using cudnn::aligned;
using cudnn::Half;
using cudnn::Search;

constexpr size_t kMostPlans = 16;  // candidates of autotuning

// A convolution with its plan, kept in the layer's slot.
class Ready {
 public:
  explicit Ready(const cudnn::Convolution& c)
      : convolution_(c), planned_(cudnn::describe(c), c.filter) {}
  explicit operator bool() const { return bool(planned_); }

  // a, c: the graph's first and second tensor; b: bias, may be undefined. In the graph's format.
  void run(const Tensor& a, const Tensor& c, const Tensor& b, const Tensor& y) {
    if (tuning_.due()) choose(a, c, b, y);
    run(planned_.plans[0], a, c, b, y);
  }

 private:
  void choose(const Tensor& a, const Tensor& c, const Tensor& b, const Tensor& y) {
    std::vector<cudnn::Plan> found;
    const auto find = [&](const std::string& name) {
      cudnn::Graph graph = std::move(cudnn::describe(convolution_).graph);
      const std::string version = "cuDNN " + cudnn::version() + " ";
      if (name.empty())
        found = std::move(graph).plans(convolution_.filter, Search::thorough, kMostPlans);
      else if (name.starts_with(version))
        found = std::move(graph).plan(convolution_.filter, name.substr(version.size()));
      Candidates candidates;
      for (const cudnn::Plan& plan : found)
        candidates.push_back(
            {version + plan.name(), plan.workspace_bytes(), [&] { run(plan, a, c, b, y); }});
      return candidates;
    };
    const auto best = tuning_.make(Device::cuda, cat(convolution_), find);
    if (!best) return;
    const std::string name = found[*best].name();
    found.clear();  // frees the graph that keeps all candidates' engines
    auto plans = cudnn::describe(convolution_).graph.plan(convolution_.filter, name);
    if (!plans.empty()) planned_.plans = std::move(plans);
  }

  void run(const cudnn::Plan& plan, const Tensor& a, const Tensor& c, const Tensor& b,
           const Tensor& y) const {
    const cudnn::ConvolutionTensors& t = planned_.tensors;
    plan.run({{t.first, a}, {t.second, c}, {t.bias, b}, {t.result, y}});
  }

  cudnn::Convolution convolution_;
  cudnn::Planned<cudnn::ConvolutionTensors> planned_;
  Tuning tuning_;
};

// Returns null, for the plain kernel, if cuDNN is missing or has no engine.
Ready* find(Half half, DType dtype, const Shape& x, const Shape& w, const MemoryFormat& format,
            bool bias, const Conv2dOptions& options, Slot& slot) {
  if (!cudnn::available()) return nullptr;
  const cudnn::Convolution key{half, x, w, format, dtype, bias, options, cudnn::filter()};
  Ready& ready = slot.get<Ready>(key, [&] { return Ready(key); });
  return ready ? &ready : nullptr;
}

}  // namespace

static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options, Slot& slot) {
  const MemoryFormat& format = conv2d_format(x, w);
  Ready* ready =
      find(Half::forward, x.dtype(), x.shape(), w.shape(), format, b.defined(), options, slot);
  if (!ready) return kernels::conv2d.plain(x, w, b, options, slot);
  const Shape shape = conv2d_shape("conv2d", x.shape(), w.shape(), options);
  const Tensor y(shape, x.dtype(), Device::cuda, format);
  ready->run(aligned(contiguous(x, format)), aligned(contiguous(w, format)),
             b.defined() ? aligned(contiguous(b)) : b, y);
  return y;
}

static Tensor backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot) {
  const MemoryFormat& format = conv2d_format(dy, w);
  Ready* ready = find(Half::backward_x, dy.dtype(), x, w.shape(), format, false, options, slot);
  if (!ready) return kernels::conv2d_backward_x.plain(dy, w, x, options, slot);
  const Tensor dx(x, dy.dtype(), Device::cuda, format);
  ready->run(aligned(contiguous(dy, format)), aligned(contiguous(w, format)), Tensor(), dx);
  return dx;
}

static void backward_w(const Tensor& dy_, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot) {
  const MemoryFormat& format = conv2d_format(dy_, x);
  Ready* ready =
      find(Half::backward_w, x.dtype(), x.shape(), dw.shape(), format, false, options, slot);
  if (!ready) return kernels::conv2d_backward_w.plain(dy_, x, dw, db, options, slot);
  const Tensor dy = aligned(contiguous(dy_, format));
  const cudnn::Output result(dw, format);
  ready->run(dy, aligned(contiguous(x, format)), Tensor(), result.tensor());
  result.done();
  if (db.defined()) copy_into(db, kernels::sum(dy, {1, dw.dim(0), 1, 1}, 1).view_as(db.shape()));
}

// With `deterministic` on, the filter admits only engines that give the same bits every time.
static const bool gpu =
    kernels::conv2d.vendor_on(Device::cuda, forward,
                              {.thread_invariant = true, .version = cudnn::loaded}) &&
    kernels::conv2d_backward_x.vendor_on(Device::cuda, backward_x,
                                         {.thread_invariant = true, .version = cudnn::loaded}) &&
    kernels::conv2d_backward_w.vendor_on(Device::cuda, backward_w,
                                         {.thread_invariant = true, .version = cudnn::loaded});

}  // namespace bellows
