// Batch normalization with cuDNN: an algorithm that autotuning may choose instead of our kernels.
// Forward is one graph (statistics, y and mask bits), backward is another.
#include "core/device/launch.cuh"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/norm/batch_norm.h"
#include "ops/vendor/cudnn_batch_norm.h"

namespace bellows {

namespace cudnn {

namespace {
struct Layouts {
  explicit Layouts(const BatchNorm& p)
      : image(p.x, kNHWC, p.dtype),
        bits(p.x, kNHWC, DType::u8),
        channels({1, p.x[1], 1, 1}, kNHWC, DType::f32) {}
  Layout image, bits, channels;
};
}  // namespace

BatchNormGraph describe_forward(const BatchNorm& pass) {
  const Layouts layouts(pass);
  BatchNormGraph d{Graph(pass.dtype)};
  BatchNormTensors& t = d.tensors;
  t.x = d.graph.input(layouts.image);
  t.weight = d.graph.input(layouts.channels), t.bias = d.graph.input(layouts.channels);
  const auto norm = d.graph.batch_norm(t.x, t.weight, t.bias, pass.eps);
  t.y = norm.y, t.mean = norm.mean, t.inverse = norm.inverse;
  d.graph.output(t.mean, layouts.channels);
  d.graph.output(t.inverse, layouts.channels);
  if (pass.residual) {
    t.residual = d.graph.input(layouts.image);
    t.y = d.graph.add(t.y, t.residual);
  }
  if (pass.relu) {
    t.y = d.graph.relu(t.y);
    t.bits = d.graph.positive(t.y);
    d.graph.output(t.bits, layouts.bits);
  }
  d.graph.output(t.y, layouts.image);
  return d;
}

BatchNormGraph describe_backward(const BatchNorm& pass) {
  const Layouts layouts(pass);
  BatchNormGraph d{Graph(pass.dtype)};
  BatchNormTensors& t = d.tensors;
  t.dy = d.graph.input(layouts.image);
  Id incoming = t.dy;
  if (pass.relu) {
    t.bits = d.graph.input(layouts.bits);
    incoming = d.graph.where(t.bits, t.dy);
  }
  if (pass.residual) {
    t.dresidual = incoming;
    d.graph.output(t.dresidual, layouts.image);
  }
  t.x = d.graph.input(layouts.image), t.weight = d.graph.input(layouts.channels);
  t.mean = d.graph.input(layouts.channels), t.inverse = d.graph.input(layouts.channels);
  const auto grads = d.graph.batch_norm_backward(incoming, t.x, t.weight, t.mean, t.inverse);
  t.dx = grads.dx, t.dw = grads.dw, t.db = grads.db;
  d.graph.output(t.dx, layouts.image);
  d.graph.output(t.dw, layouts.channels);
  d.graph.output(t.db, layouts.channels);
  return d;
}

std::ostream& operator<<(std::ostream& out, const BatchNorm& pass) {
  return out << (pass.backward ? "batch_norm_backward " : "batch_norm ") << pass.dtype << pass.x
             << (pass.relu ? " relu" : "") << (pass.residual ? " residual" : "") << " eps "
             << pass.eps << ' ' << pass.filter;
}

}  // namespace cudnn

namespace {

using cudnn::aligned;
using Planned = cudnn::Planned<cudnn::BatchNormTensors>;

const Planned& find(bool backward, const Tensor& x, bool relu, bool residual, double eps,
                    Slot& slot) {
  const cudnn::BatchNorm pass{x.shape(), x.dtype(), relu, residual, eps, cudnn::filter(), backward};
  return slot.get<Planned>(pass, [&] {
    return Planned(pass, backward ? cudnn::describe_backward : cudnn::describe_forward);
  });
}

// cuDNN's statistics are (mean, 1 / sqrt(var + eps)), ours (mean, var). Both kernels: one thread
// per channel, blocks of 256; they read and write 4 bytes per channel.
__global__ void variances(float* of, int64_t channels, double eps) {
  await_predecessor();
  for (int64_t c = thread_index(); c < channels; c += thread_count())
    of[c] = float(fmax(1 / (double(of[c]) * of[c]) - eps, 0.0));
}
__global__ void inverse_deviations(const float* var, float* inverse, int64_t channels, double eps) {
  await_predecessor();
  for (int64_t c = thread_index(); c < channels; c += thread_count())
    inverse[c] = float(1 / sqrt(var[c] + eps));
}

}  // namespace

static kernels::NormalizedGrads backward(const Tensor& dy_, const Tensor& more, const Tensor& x,
                                         const kernels::Normalization& norm, const Tensor& bits,
                                         bool residual, const Tensor& dw_, const Tensor& db_,
                                         Slot& slot) {
  const auto& [t, call] = find(true, x, bits.defined(), residual, norm.eps, slot);
  const int64_t C = x.dim(1);
  Tensor dy = aligned(contiguous(dy_, kNHWC));
  const Tensor dx = empty_like(x);
  if (more.defined()) {  // the graph has one gradient
    const Tensor sum = empty_like(dy);
    copy_into(sum, dy);
    add_into(sum, contiguous(more, kNHWC));
    dy = sum;
  }
  const Tensor dresidual = residual ? empty_like(x) : Tensor(),
               inverse({C}, DType::f32, x.device());
  launch(inverse_deviations, grid_of(C), norm.statistics.ptr<float>() + C, inverse.ptr<float>(), C,
         norm.eps);
  const cudnn::Output dw(dw_), db(db_);
  const bool done = call->run({{t.dy, dy},
                               {t.bits, bits},
                               {t.dresidual, dresidual},
                               {t.x, aligned(x)},
                               {t.weight, aligned(norm.weight)},
                               {t.mean, norm.statistics},
                               {t.inverse, inverse},
                               {t.dx, dx},
                               {t.dw, dw.tensor()},
                               {t.db, db.tensor()}});
  if (!done)
    fail(Exit::internal,
         "batch_norm_backward: no plan of cuDNN runs, and only cuDNN can read the "
         "mask bits of its forward; write  kernels.autotune: heuristic  to use Bellows' kernels");
  dw.done();
  db.done();
  return {dx, dresidual};
}

static kernels::BatchNormPass forward(const Tensor& x_, const Tensor& weight_, const Tensor& bias_,
                                      const Tensor& residual_, bool relu, double eps,
                                      const RunningUpdate& running, Slot& slot) {
  // cuDNN must run both passes or none: only its backward can read the mask bits that its forward
  // writes. The call to run is found last, because finding one may evict another from the slot.
  const auto plain = [&] {
    return kernels::batch_norm_training.plain(x_, weight_, bias_, residual_, relu, eps, running,
                                              slot);
  };
  if (!find(true, x_, relu, residual_.defined(), eps, slot).call->can_run()) return plain();
  const auto& [t, call] = find(false, x_, relu, residual_.defined(), eps, slot);
  const int64_t C = x_.dim(1);
  const Tensor x = aligned(x_), weight = aligned(weight_), bias = aligned(bias_);
  const Tensor residual = residual_.defined() ? aligned(contiguous(residual_, kNHWC)) : residual_;
  const Tensor y = empty_like(x), statistics({2, C}, DType::f32, x.device());
  const Tensor bits = relu ? Tensor({(x.numel() + 7) / 8}, DType::u8, x.device()) : Tensor();
  float* const inverse = statistics.ptr<float>() + C;
  const bool done = call->run({{t.x, x},
                               {t.weight, weight},
                               {t.bias, bias},
                               {t.residual, residual},
                               {t.y, y},
                               {t.bits, bits},
                               {t.mean, statistics},
                               {t.inverse, inverse}});
  if (!done) return plain();
  launch(variances, grid_of(C), inverse, C, eps);
  kernels::update_running(statistics, running);
  return {y, bits, statistics, backward};
}

static bool fits(const Tensor& x, const Tensor&, const Tensor&, const Tensor&, bool, double,
                 const RunningUpdate&, Slot&) {
  return kernel_options().vendor && cudnn::takes_batch_norm(x) && cudnn::available();
}

static const bool gpu =
    kernels::batch_norm_training.algorithm_on(Device::cuda, "cudnn", fits, forward, cudnn::version);

}  // namespace bellows
