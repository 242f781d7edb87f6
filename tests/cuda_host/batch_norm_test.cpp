// Batch normalization on the device beyond the generic suite: cancellation, NaN, and the running
// statistics.
#include "ops/norm/batch_norm.h"
#include <gtest/gtest.h>
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"
#include "tests/cuda_host/beside_cpu.h"
#include "tests/cuda_host/cuda_host.h"

using namespace cuda_host;

namespace {
struct Norm : testing::Test {
  void SetUp() override { reset({.threads = Order::descending}); }
  void TearDown() override {
    empty_cache(Device::cuda);
    EXPECT_EQ(complaint(), "");
  }
};
}  // namespace

// Mean 10000, standard deviation 1. With `blank` the first image is 0, so the first element of the
// tensor is a bad pivot for all others.
TEST_F(Norm, LargeNumbersDoNotCancel) {
  for (const MemoryFormat& format : {kNCHW, kNHWC})
    for (const bool blank : {false, true}) {
      SCOPED_TRACE(cat(format.name, blank ? " blank" : ""));
      const Shape shape{130, 12, 9, 8};
      const Tensor x = normal(shape, 1);
      for (int64_t i = 0; i < x.numel(); ++i)
        x.data<double>()[i] = blank && i < x.numel() / 130 ? 0 : x.data<double>()[i] + 1e4;
      const Tensor x_ = contiguous(on_device(x, DType::f32), format);
      const Tensor want = kernels::channel_statistics(cast(cast(x, DType::f32), DType::f64), {});
      const Tensor got = to(Device::cpu, kernels::channel_statistics(x_, {}));
      synchronize(current_stream(Device::cuda));
      for (int64_t c = 0; c < 24; ++c)
        EXPECT_NEAR(got.data<float>()[c] / want.data<double>()[c], 1, c < 12 ? 2e-7 : 5e-5) << c;
    }
}

// ReLU sets y <= 0 to 0 and passes NaN.
TEST_F(Norm, ReluLetsNaNPass) {
  const Tensor x = tensor_of<float>({NAN, -1, 0, 2}, {4, 1}, Device::cuda);
  const Tensor one = full({1}, 1, DType::f32, Device::cuda),
               zero = zeros({1}, DType::f32, Device::cuda);
  const Tensor statistics = tensor_of<float>({0, 1}, {2, 1}, Device::cuda);
  const kernels::Normalization norm{statistics, one, zero, 0};
  const auto [y, bits] = kernels::batch_norm(x, norm, {}, true);
  const Tensor dy = full({4, 1}, 3, DType::f32, Device::cuda);
  const Tensor dw = clone(one), db = clone(one);
  const Tensor g = kernels::batch_norm_backward_w(dy, {}, x, norm, bits, true, dw, db).dy;
  EXPECT_EQ(difference(tensor_of<double>({NAN, 0, 0, 2}, {4, 1}), y), 0);
  EXPECT_EQ(difference(tensor_of<double>({3, 0, 0, 3}, {4, 1}), g), 0);
}

// The kernels that compute the statistics update the running ones as a launch of its own would.
TEST_F(Norm, UpdatesRunningStatisticsInTheirPrecision) {
  for (const DType dtype : {DType::bf16, DType::f64})
    for (const bool apart : {false, true}) {
      SCOPED_TRACE(cat(dtype, apart ? " apart" : ""));
      const DType kept = precise(dtype);
      const auto run = [&](Device device) {
        const RunningUpdate update{{full({24}, 1, kept, device), full({24}, 2, kept, device),
                                    full({}, 7, DType::i64, device)},
                                   0.1,
                                   1.25};
        const Tensor x = contiguous(to(device, cast(normal({9, 24, 5, 7}, 1), dtype)), kNHWC);
        const Tensor statistics = kernels::channel_statistics(x, apart ? RunningUpdate() : update);
        if (apart) kernels::update_running(statistics, update);
        return update;
      };
      const RunningUpdate want = run(Device::cpu), got = run(Device::cuda);
      EXPECT_LE(difference(want.mean, got.mean), dtype == kept ? 1e-14 : 2e-7);
      EXPECT_LE(difference(want.var, got.var), dtype == kept ? 1e-14 : 2e-7);
      EXPECT_EQ(difference(want.batches, got.batches), 0);
    }
}
