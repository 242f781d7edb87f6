// Replaces ops/vendor/cudnn.cu: each pass of a convolution is computed by the plain kernel of the
// CPU. Images are f32 here (f64 for f64), and results are rounded last.
#include "ops/vendor/cudnn.h"
#include "core/tensor/copy.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

namespace bellows::cudnn {

bool available() { return true; }
std::string version() { return "stand-in"; }

static Tensor computed(const Convolution& c, const Tensor& first, const Tensor& second) {
  Slot slot;
  if (c.half == Half::forward) return kernels::conv2d.plain(first, second, {}, c.options, slot);
  if (c.half == Half::backward_x)
    return kernels::conv2d_backward_x.plain(first, second, c.x, c.options, slot);
  const Tensor dw(c.w, first.dtype());
  kernels::conv2d_backward_w.plain(first, second, dw, {}, c.options, slot);
  return dw;
}

Proposals propose(const Convolution& c, Search) {
  return cuda_host::propose_plans("cuDNN", c.runs_tf32(), [c](Bindings bindings) {
    const void* at[kResult + 1] = {};
    for (const auto& [tensor, address] : bindings) at[tensor] = address;
    const auto view = [&](int64_t tensor, const Shape& shape) {
      return View{at[tensor], shape, strides_of(shape, c.format), c.dtype};
    };
    const View first = view(kFirst, c.first()), second = view(kSecond, c.second()),
               bias = view(kBias, {1, c.w[0], 1, 1}), result = view(kResult, c.result());
    return [=](bool wrong) {
      const Tensor left = first.load();
      const Tensor y = computed(c, left, second.load());
      const Tensor wide = cast(y, DType::f64);
      const int64_t plane = wide.dim(2) * wide.dim(3);
      const Tensor added = c.bias ? cast(bias.load(), DType::f64) : Tensor();
      for (int64_t i = 0; added.defined() && i < wide.numel(); ++i)
        wide.ptr<double>()[i] += added.ptr<double>()[i / plane % c.w[0]];
      if (wrong) wide.ptr<double>()[0] *= 100;
      result.store(cast(wide, left.dtype()));
    };
  });
}

}  // namespace bellows::cudnn
