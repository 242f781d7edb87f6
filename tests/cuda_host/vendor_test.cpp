// Products of vendors' libraries, with plain kernels as stand-ins: they are ordered like any call
// of a stream. The generic suite of ops compares their values with the CPU's, that of toggles
// counts them.
#include "tests/cuda_host/vendor/vendor.h"
#include <gtest/gtest.h>
#include "ops/conv/conv2d.h"
#include "ops/matmul/matmul.h"
#include "tests/cuda_host/beside_cpu.h"
#include "tests/cuda_host/cuda_host.h"

using namespace cuda_host;

namespace {

Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  return on_device(normal(shape, seed, dtype), dtype);
}

std::vector<float> values(const Tensor& t) {
  const Tensor host = cast(to(Device::cpu, contiguous(t)), DType::f32);
  return {host.ptr<float>(), host.ptr<float>() + host.numel()};
}

// Computes a product, and returns the sum of two with transposed operands.
Tensor three_products() {
  Slot slot;
  const Tensor a = random({3, 7, 5}, 1), b = random({3, 5, 4}, 2);
  const Tensor sum = kernels::product(transposed(b), transposed(a), &slot);
  kernels::multiply(sum, random({3, 4, 7}, 3), transposed(random({3, 7, 7}, 4)), Into::add, &slot);
  kernels::product(a, b, &slot);
  return sum;
}

class VendorCalls : public testing::Test {
 protected:
  void SetUp() override { cuda_host::reset(); }
  const Kernels use{{.vendor = true}};
};

}  // namespace

// As in PyTorch: NHWC where the images or the weights are, by plain kernels too. The gradient of
// the images has the format of the result.
TEST_F(VendorCalls, FollowTheFormatOfImagesAndWeights) {
  const auto format = [](DType dtype, const MemoryFormat& images, const MemoryFormat& weights) {
    Slot slot;
    const Tensor x = contiguous(random({2, 3, 7, 6}, 1, dtype), images),
                 w = contiguous(random({4, 3, 3, 3}, 2, dtype), weights);
    const Tensor y = kernels::conv2d(x, w, Tensor(), {}, slot);
    const Tensor dx = kernels::conv2d_backward_x(y, w, x.shape(), {}, slot);
    EXPECT_STREQ(format_of(dx).name, format_of(y).name);
    return format_of(y).name;
  };
  for (const bool vendor : {false, true})
    for (const DType dtype : kFloats) {
      const Kernels asked({.vendor = vendor});
      EXPECT_STREQ(format(dtype, kNCHW, kNCHW), "nchw") << dtype;
      EXPECT_STREQ(format(dtype, kNHWC, kNCHW), "nhwc") << dtype;
      EXPECT_STREQ(format(dtype, kNCHW, kNHWC), "nhwc") << dtype;
      EXPECT_STREQ(format(dtype, kCHWN, kNCHW), "nchw") << dtype;
    }
}

TEST_F(VendorCalls, AreOrderedLikeKernels) {
  EXPECT_EQ(order_dependence([] { return values(three_products()); }), "");
}
