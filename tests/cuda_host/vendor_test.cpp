// Products of vendors' libraries, with plain kernels as stand-ins: they are ordered like any call
// of a stream, match the CPU, and follow the KernelOptions.
#include "tests/cuda_host/vendor/vendor.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include "core/base/philox.h"
#include "core/base/trace.h"
#include "core/device/graph.h"
#include "core/tensor/copy.h"
#include "ops/conv/conv2d.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.h"
#include "tests/cuda_host/cuda_host.h"

using namespace bellows;

namespace {

constexpr DType kAll[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

Tensor normal(const Shape& shape, uint64_t seed, DType dtype, Device device,
              const MemoryFormat& format = kNCHW) {
  const Tensor t(shape, DType::f32);
  const Philox rng({.seed = seed});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = float(rng.normal(i));
  return contiguous(to(device, cast(t, dtype)), format);
}

std::vector<double> values(const Tensor& t) {
  const Tensor host = cast(to(Device::cpu, contiguous(t)), DType::f64);
  const auto all = host.data<double>();
  return {all.begin(), all.end()};
}

// Makes inputs for one device and dtype. The CPU computes 16-bit dtypes in f32 and rounds last.
struct Where {
  Device device;
  DType dtype;
  Tensor make(const Shape& shape, uint64_t seed, const MemoryFormat& format = kNCHW) const {
    if (device == Device::cuda) return normal(shape, seed, dtype, device, format);
    return cast(normal(shape, seed, dtype, device, format), computed());
  }
  Tensor fresh(const Shape& shape) const {
    return Tensor(shape, device == Device::cuda ? dtype : computed(), device);
  }
  std::vector<double> rounded(const Tensor& t) const { return values(cast(t, dtype)); }
  DType computed() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
};
using Results = std::vector<std::vector<double>>;

Results products(const Where& where) {
  Slot slot;
  const Tensor a = where.make({3, 7, 5}, 1), b = where.make({3, 5, 4}, 2);
  const Tensor y = kernels::product(a, b, &slot);
  const Tensor c = where.make({3, 4, 7}, 3);
  const Tensor transposed_ = kernels::product(transposed(b), transposed(a), &slot);
  kernels::multiply(transposed_, c, transposed(where.make({3, 7, 7}, 4)), Into::add, &slot);
  return {where.rounded(y), where.rounded(transposed_)};
}

Results linears(const Where& where) {
  Slot slot;
  const Tensor x = where.make({6, 5}, 1), w = where.make({4, 5}, 2), b = where.make({4}, 3);
  const Tensor dy = where.make({6, 4}, 4), dw = where.fresh({4, 5}), db = where.fresh({4});
  kernels::linear_backward_w(dy, x, dw, db, slot);
  return {where.rounded(kernels::linear(x, w, b, Activation::none, slot)),
          where.rounded(kernels::linear(x, w, b, Activation::relu, slot)),
          where.rounded(kernels::linear(x, w, Tensor(), Activation::none, slot)), where.rounded(dw),
          where.rounded(db)};
}

Results convolutions(const Where& where, const MemoryFormat& format) {
  Slot slot;
  const Conv2dOptions options{.stride = 2, .padding = 1};
  const Tensor x = where.make({2, 3, 7, 6}, 1, format), w = where.make({4, 3, 3, 3}, 2);
  const Tensor b = where.make({4}, 3), y = kernels::conv2d(x, w, b, options, slot);
  const Tensor dy = where.make(y.shape(), 4, format), dw = where.fresh(w.shape());
  const Tensor db = where.fresh({4});
  kernels::conv2d_backward_w(dy, x, dw, db, options, slot);
  return {where.rounded(y),
          where.rounded(kernels::conv2d_backward_x(dy, w, x.shape(), options, slot)),
          where.rounded(dw), where.rounded(db)};
}

class VendorCalls : public testing::Test {
 protected:
  void SetUp() override { cuda_host::reset(); }
  const Kernels use{{.vendor = true}};
};

// For sums in another order and one more rounding to the dtype (two for `Into::add`).
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-14;
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    default:
      return 1e-6;
  }
}

void expect_close(const std::vector<double>& want, const std::vector<double>& got,
                  double tolerance) {
  ASSERT_EQ(want.size(), got.size());
  double largest = 0;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(want[i], got[i], tolerance * largest) << "element " << i;
}

// Expects the same results on both devices, and `calls` vendor calls on cuda_host.
template <class Run> void expect_same(int64_t calls, const Run& run) {
  const trace::Counter& counted = trace::counter("kernel.vendor_calls");
  for (const DType dtype : kAll) {
    SCOPED_TRACE(cat(dtype));
    Results want;
    {
      const Kernels plain({});
      want = run(Where{Device::cpu, dtype});
    }
    const int64_t before = counted.value();
    const Results got = run(Where{Device::cuda, dtype});
    for (size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(cat("result ", i));
      expect_close(want[i], got[i], tolerance(dtype));
    }
    EXPECT_EQ(counted.value() - before, calls);
  }
  EXPECT_EQ(cuda_host::complaint(), "");
}

}  // namespace

TEST_F(VendorCalls, MultiplyAsTheCpuDoes) { expect_same(3, products); }
TEST_F(VendorCalls, DoLinearLayersAsTheCpuDoes) { expect_same(4, linears); }
TEST_F(VendorCalls, ConvolveAsTheCpuDoes) {
  for (const MemoryFormat& format : {kNCHW, kNHWC})
    expect_same(3, [&](const Where& where) { return convolutions(where, format); });
}

// As in PyTorch: NHWC where the images or the weights are.
TEST_F(VendorCalls, FollowTheFormatOfImagesAndWeights) {
  const auto format = [](DType dtype, const MemoryFormat& images, const MemoryFormat& weights) {
    const Where where{Device::cuda, dtype};
    Slot slot;
    const Tensor y = kernels::conv2d(where.make({2, 3, 7, 6}, 1, images),
                                     where.make({4, 3, 3, 3}, 2, weights), Tensor(), {}, slot);
    return format_of(y).name;
  };
  for (const DType dtype : kAll) {
    EXPECT_STREQ(format(dtype, kNCHW, kNCHW), "nchw") << dtype;
    EXPECT_STREQ(format(dtype, kNHWC, kNCHW), "nhwc") << dtype;
    EXPECT_STREQ(format(dtype, kNCHW, kNHWC), "nhwc") << dtype;
    EXPECT_STREQ(format(dtype, kCHWN, kNCHW), "nchw") << dtype;
  }
}

TEST_F(VendorCalls, AreOrderedLikeKernels) {
  EXPECT_EQ(cuda_host::order_dependence([] {
              const Results all = products({Device::cuda, DType::f32});
              return std::vector<float>(all[1].begin(), all[1].end());
            }),
            "");
}

// A captured product reads its operands when the graph is launched.
TEST_F(VendorCalls, CanBeCaptured) {
  const Tensor a = normal({1, 4, 4}, 1, DType::f32, Device::cuda), other = full({1, 4, 4}, 2, a);
  const Tensor b = normal({1, 4, 4}, 2, DType::f32, Device::cuda), y = empty({1, 4, 4}, a);
  const Graph graph(Device::cuda, [&] { kernels::multiply(y, a, b); });
  copy_into(a, other);
  graph.launch();
  EXPECT_EQ(values(y), values(kernels::product(other, b)));
}

// ---- tf32

TEST_F(VendorCalls, CountTf32WhereItIsAskedForAndOnlyInF32) {
  const trace::Counter& counted = trace::counter("matmul.tf32_calls");
  for (const DType dtype : kAll)
    for (const bool tf32 : {false, true}) {
      const Kernels asked({.vendor = true, .tf32 = tf32});
      const int64_t before = counted.value();
      products({Device::cuda, dtype});
      linears({Device::cuda, dtype});
      convolutions({Device::cuda, dtype}, kNCHW);
      EXPECT_EQ(counted.value() - before, dtype == DType::f32 && tf32 ? 10 : 0) << dtype;
    }
}

// 1 + 2^-11 is halfway between two values with 10 bits of mantissa; the next smaller f32 rounds
// down.
TEST_F(VendorCalls, ReadTenBitsOfMantissaUnderTf32) {
  const float half = 1 + 0x1p-11f, below = std::nextafter(half, 0.0f);
  const Tensor a = to(Device::cuda, tensor_of<float>({half, below, -half, INFINITY}, {4, 1}));
  const Tensor one = full({1, 1}, 1, DType::f32, Device::cuda);
  const std::vector<double> exact = {half, below, -half, INFINITY};
  EXPECT_EQ(values(kernels::product(a, one)), exact);
  const Kernels asked({.vendor = true, .tf32 = true});
  const std::vector<double> rounded = {1 + 0x1p-10, 1, -1 - 0x1p-10, INFINITY};
  EXPECT_EQ(values(kernels::product(a, one)), rounded);
}

// Sums stay in f32: the error is that of the inputs.
TEST_F(VendorCalls, LoseThreeDigitsUnderTf32AndNoMore) {
  const Results exact = products({Device::cuda, DType::f32});
  const Kernels asked({.vendor = true, .tf32 = true});
  const Results rounded = products({Device::cuda, DType::f32});
  double worst = 0;
  for (size_t i = 0; i < exact[0].size(); ++i)
    worst = std::max(worst, std::abs(exact[0][i] - rounded[0][i]));
  EXPECT_GT(worst, 1e-5);
  EXPECT_LT(worst, 5e-3);
}
