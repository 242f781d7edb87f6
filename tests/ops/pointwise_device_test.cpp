// Chains on a device: both kernels give the bits of the single ops, for any layout of the inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstring>
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/base/op.h"
#include "ops/chain/pointwise.h"
#include "tests/on_device.h"

using namespace bellows;

namespace {

class PointwiseOnDevice : public OnDevice<> {};

const Chain& chain() {
  static const Chain all("maximum(x, 0.1 * x) * (1 + scale) + gelu(shift / 3)",
                         {"x", "scale", "shift"});
  return all;
}

Inputs leaves(const Shapes& shapes, DType dtype) {
  const OpSpec op{.name = "", .math = "", .cases = {}, .run = nullptr};
  Inputs inputs;
  for (const Tensor& t : make_inputs(op, shapes, dtype))
    inputs.push_back(require_grad(to(Device::cuda, t.detach())));
  return inputs;
}

// Returns a copy that starts one element later, where no pack of 16 bytes is aligned.
Tensor shifted(const Tensor& t) {
  const Tensor room = full({t.numel() + 1}, 0, t);
  const Tensor y = room.view(t.shape(), strides_of(t.shape()), 1);
  kernels::copy(y, t);
  return require_grad(y);
}

// y and the gradients, on the host.
std::vector<Tensor> run(const Inputs& inputs, Impl impl) {
  const Tensor y = pointwise(chain(), inputs, impl);
  backward(record("ones", full({}, 0, y), {y}, [like = y.detach()](const Tensor&) {
    return Grads{full(like.shape(), 1.25, like)};
  }));
  std::vector<Tensor> all{y.detach()};
  for (const Tensor& x : inputs) all.push_back(grad(x));
  for (Tensor& t : all) t = to(Device::cpu, contiguous(t));
  synchronize(current_stream(Device::cuda));
  return all;
}

void expect_same_bits(const std::vector<Tensor>& want, const std::vector<Tensor>& got) {
  for (size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(want[k].shape(), got[k].shape());
    EXPECT_EQ(std::memcmp(want[k].bytes(), got[k].bytes(), want[k].nbytes()), 0) << "result " << k;
  }
}

}  // namespace

// Rows that are a multiple of a pack and rows that are not, scalars, and a partial last pack.
TEST_F(PointwiseOnDevice, FusedHasTheBitsOfComposed) {
  for (const Shapes& shapes : {Shapes{{3, 4, 16}, {4, 1}, {}}, Shapes{{3, 4, 5}, {4, 1}, {4, 1}},
                               Shapes{{37}, {37}, {}}, Shapes{{2, 3, 8}, {8}, {2, 1, 1}}})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (const bool vendor : {false, true}) {
        SCOPED_TRACE(cat(shapes[0], " ", dtype, vendor ? " compiled" : ""));
        const Kernels use({.vendor = vendor});
        const auto want = run(leaves(shapes, dtype), Impl::composed);
        expect_same_bits(want, run(leaves(shapes, dtype), Impl::fused));
        Inputs later;
        for (const Tensor& t : leaves(shapes, dtype)) later.push_back(shifted(t));
        expect_same_bits(want, run(later, Impl::fused));
      }
}

TEST_F(PointwiseOnDevice, IsOneLaunch) {
  const trace::Counter& launches = trace::counter("cuda.launches");
  const Inputs inputs = leaves({{3, 4, 16}, {4, 1}, {}}, DType::f32);
  pointwise(chain(), inputs, Impl::fused);
  int64_t before = launches.value();
  pointwise(chain(), inputs, Impl::fused);
  EXPECT_EQ(launches.value() - before, 1);
  before = launches.value();
  pointwise(chain(), inputs, Impl::composed);
  EXPECT_GE(launches.value() - before, 7);
}
