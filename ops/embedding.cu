// embedding on the GPU gathers along axis 0, by an index that is the same for all columns.
#include "core/tensor/copy.h"
#include "ops/embedding.h"
#include "ops/gather.h"

namespace bellows {

static Tensor for_columns(const Tensor& index, int64_t columns) {
  return index.view({index.numel(), columns}, {1, 0}, index.offset());
}

static Tensor forward_cuda(const Tensor& index, const Tensor& weight) {
  return kernels::gather(weight, 0, for_columns(index, weight.dim(1)));
}

static void backward_cuda(const Tensor& dy, const Tensor& index, const Tensor& dw) {
  copy_into(dw, kernels::gather_backward(dy, 0, for_columns(index, dw.dim(1)), dw.shape()));
}

static const bool gpu = kernels::embedding.on(Device::cuda, forward_cuda) &&
                        kernels::embedding_backward.on(Device::cuda, backward_cuda);

}  // namespace bellows
