#include <cmath>
#include "core/tensor/foreach.cuh"
#include "optim/optimizer.h"

namespace bellows {

struct AddNorm {
  StepSource group;
  bool first;
  __device__ void operator()(double squares) const { add_norm(group, std::sqrt(squares), first); }
};
static int64_t grad_norm_cuda(TensorSpan grads, const StepSource& group, bool first) {
  return sum_of_squares(grads, AddNorm{group, first});
}
static const bool gpu = kernels::grad_norm.on(Device::cuda, grad_norm_cuda);

}  // namespace bellows
