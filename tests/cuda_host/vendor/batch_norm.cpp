// Replaces ops/vendor/cudnn_batch_norm.cu. The mask bits have the CPU's layout for whole planes,
// not that of our CUDA kernels, so code that mixes the two passes fails.
#include "ops/norm/batch_norm.h"
#include "core/tensor/copy.h"
#include "ops/vendor/cudnn_batch_norm.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

static Tensor bits_for(const Tensor& x) {
  const int64_t planes = x.dim(0) * x.dim(1), pixels = x.dim(2) * x.dim(3);
  return Tensor({planes, (pixels + 7) / 8}, DType::u8, x.device());
}

static kernels::NormalizedGrads backward(const Tensor& dy, const Tensor& x,
                                         const Tensor& statistics, const Tensor& weight,
                                         const Tensor& bits, double eps, bool residual,
                                         const Tensor& dw, const Tensor& db, Slot&) {
  const Tensor dx = empty_like(x), dresidual = residual ? empty_like(x) : Tensor();
  cuda_host::vendor_call(
      "cuDNN batch_norm_backward",
      [dy = View(dy), x = View(x), statistics = View(statistics), weight = View(weight),
       bits = View(bits), eps, dw = View(dw), db = View(db), dx = View(dx),
       dresidual = View(dresidual), residual, relu = bits.defined()] {
        const Tensor dy_ = dy.load(), x_ = x.load(), dw_ = dw.load(), db_ = db.load();
        const Tensor statistics_ = statistics.load();
        const Tensor bits_ = relu ? cast(bits.load(), DType::u8) : Tensor();
        kernels::batch_norm_backward_w(dy_, x_, statistics_, bits_, eps, dw_, db_);
        const auto grads = kernels::batch_norm_backward_x(dy_, x_, statistics_, weight.load(), dw_,
                                                          db_, bits_, eps, residual);
        dx.store(grads.dx);
        if (residual) dresidual.store(grads.dresidual);
        dw.store(dw_);
        db.store(db_);
      });
  dw.raise_version();
  db.raise_version();
  return {dx, dresidual};
}

static kernels::BatchNormPass forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      const Tensor& residual, bool relu, double eps, Slot&) {
  const Tensor y = empty_like(x), statistics({2, x.dim(1)}, DType::f32, x.device());
  const Tensor bits = relu ? bits_for(x) : Tensor();
  cuda_host::vendor_call("cuDNN batch_norm", [x = View(x), weight = View(weight), bias = View(bias),
                                              residual = View(residual), relu, eps, y = View(y),
                                              bits = View(bits), statistics = View(statistics)] {
    Slot slot;
    const auto pass = kernels::batch_norm_in_steps(x.load(), weight.load(), bias.load(),
                                                   residual.load(), relu, eps, slot);
    y.store(pass.y);
    statistics.store(pass.statistics);
    if (relu) bits.store(cast(pass.bits, DType::f32));
  });
  return {y, bits, statistics, backward};
}

static bool fits(const Tensor& x, const Tensor&, const Tensor&, const Tensor&, bool, double,
                 Slot&) {
  return kernel_options().vendor && cudnn::takes_batch_norm(x);
}

static const bool algorithm =
    kernels::batch_norm_training.algorithm_on(Device::cuda, "cudnn", fits, forward);
