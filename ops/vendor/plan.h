// Arguments of Plan::run, the same for cuDNN (ops/vendor/cudnn.h) and oneDNN (ops/vendor/onednn.h).
#pragma once
#include <initializer_list>
#include "core/tensor/tensor.h"

namespace bellows {

// A tensor of a plan with its address in one run. A null address, or an undefined tensor, leaves
// the tensor unbound.
struct Binding {
  Binding(int64_t tensor, const void* address) : tensor(tensor), address(address) {}
  Binding(int64_t tensor, const Tensor& t) : Binding(tensor, t.defined() ? t.bytes() : nullptr) {}
  int64_t tensor;  // an Id of a cuDNN graph, or DNNL_ARG_*
  const void* address;
};
using Bindings = std::initializer_list<Binding>;

}  // namespace bellows
