#include <cmath>
#include "core/tensor/norm.cuh"
#include "optim/optimizer.h"

namespace bellows {

struct WriteNorm {
  StepState* state;
  __device__ void operator()(double squares) const {
    const double norm = std::sqrt(squares) * state->inverse_scale;
    state->grad_norm = float(norm);
    state->found_inf = !std::isfinite(norm);
  }
};
static int64_t grad_norm_cuda(TensorSpan grads, StepState* state) {
  return sum_of_squares(grads, WriteNorm{state});
}
static const bool gpu = kernels::grad_norm.on(Device::cuda, grad_norm_cuda);

}  // namespace bellows
