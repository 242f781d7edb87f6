// Checks every CUDA kernel of core/ against its CPU implementation.
#include <cmath>
#include <optional>
#include "core/device/sync_guard.h"
#include "core/device/timer.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "core/tensor/step_state.h"
#include "tests/difference.h"
#include "tests/matchers.h"
#include "tests/moved.h"
#include "tests/on_device.h"
#include "tests/refusal.h"
#include "tests/twins.h"

using namespace bellows;

namespace {

constexpr DType kFloats[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
constexpr DType kAll[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                          DType::i64, DType::i32, DType::u8};

// Sizes near those of a pack, a warp, a block, and a chunk of foreach.
const std::vector<int64_t> kSizes = {0, 1, 7, 33, 255, 257, 16384, 16387, 40001};

Tensor drawn(const Shape& shape, DType dtype, uint64_t seed = 1) {
  const Tensor t(shape, DType::f64);
  fill_normal(t, 0, 10, {.seed = seed});
  return cast(t, dtype);
}
// Tolerance: a device may fuse a product and a sum, with one rounding (FMA).
double rounding(DType dtype) {
  if (dtype == DType::f64) return 1e-15;
  return dtype == DType::f32 ? 1e-7 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

}  // namespace

class CoreOnDevice : public OnDevice<> {
 protected:
  static void SetUpTestSuite() { runs.emplace(); }
  static void TearDownTestSuite() {
    if (device_count(Device::cuda) == 0) return;
    EXPECT_EQ(without_twin(*runs, "core"), "");
  }
  static inline std::optional<RunCount> runs;
};

TEST_F(CoreOnDevice, FillsAndCopies) {
  for (const DType dtype : kAll)
    for (const int64_t n : kSizes) {
      SCOPED_TRACE(cat(dtype, " ", n));
      EXPECT_EQ(difference(full({n}, 3, dtype), full({n}, 3, dtype, Device::cuda)), 0);
      const Tensor x({n}, DType::f32);
      fill_uniform(x, 0, 200, {.seed = 2});  // values that every dtype can hold
      const Tensor x_ = to(Device::cuda, x);
      EXPECT_EQ(difference(cast(x, dtype), cast(x_, dtype)), 0);
    }
  const Tensor image = drawn({3, 5, 7, 9}, DType::f32), image_ = to(Device::cuda, image);
  for (const MemoryFormat& format : {kNHWC, kCHWN})
    EXPECT_EQ(difference(image, contiguous(image_, format)), 0) << format.name;
}

// Returns tensors of every size in kSizes (0 too) and of each dtype.
static std::vector<Tensor> list_on(Device device, const std::vector<DType>& dtypes) {
  std::vector<Tensor> list;
  for (const int64_t n : kSizes)
    for (const DType dtype : dtypes) list.push_back(to(device, drawn({n}, dtype, n + 1)));
  return list;
}

TEST_F(CoreOnDevice, AddsAndMeasuresLists) {
  for (const DType dtype : kFloats) {
    const auto list = list_on(Device::cpu, {dtype}), list_ = list_on(Device::cuda, {dtype});
    EXPECT_LE(difference(norm_of(list), norm_of(list_)), 1e-7);
    for (size_t i = 0; i < list.size(); ++i) {
      add_into(list[i], list[i], -0.7);
      add_into(list_[i], list_[i], -0.7);
      EXPECT_LE(difference(list[i], list_[i]), rounding(dtype)) << i;
    }
  }
}

TEST_F(CoreOnDevice, TheNormOfNothingIsZero) {
  const Tensor memory = full({64}, 7, DType::f32, Device::cuda);  // stale values must not be read
  const std::vector<Tensor> list{zeros({0}, DType::f32, Device::cuda)};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(norm_of(list).item(), 0);
}

TEST_F(CoreOnDevice, LerpsAndSwapsPairs) {
  const std::vector<DType> floats{std::begin(kFloats), std::end(kFloats)};
  const auto a = list_on(Device::cpu, floats), a_ = list_on(Device::cuda, floats);
  std::vector<Tensor> b, b_;
  for (const Tensor& t : a) {
    b.push_back(drawn(t.shape(), t.dtype(), 77));
    b_.push_back(to(Device::cuda, b.back()));
  }
  const auto expect_same = [&] {
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(difference(a[i], a_[i]), 0) << i;
      EXPECT_EQ(difference(b[i], b_[i]), 0) << i;
    }
  };
  lerp_each(a, b, 0.3);
  lerp_each(a_, b_, 0.3);
  expect_same();
  swap_each(a, b);
  swap_each(a_, b_);
  expect_same();
}

TEST_F(CoreOnDevice, CopiesPairsIfTheUpdateWasSkipped) {
  auto from = list_on(Device::cuda, {std::begin(kFloats), std::end(kFloats)});
  std::vector<Tensor> to;
  from.push_back(full({}, 7, DType::i64, Device::cuda));
  for (const Tensor& t : from) fill(to.emplace_back(empty_like(t)), 1);
  DeviceStepState state(Device::cuda);
  copy_each(to, from, state.get());
  EXPECT_EQ(difference(full({}, 1, DType::i64), to.back()), 0);
  state.write({.found_inf = 1});
  copy_each(to, from, state.get());
  for (size_t i = 0; i < to.size(); ++i) EXPECT_EQ(difference(from[i], to[i]), 0) << i;
}

TEST_F(CoreOnDevice, AListOfManyShortTensorsTakesFewLaunches) {
  std::vector<Tensor> list, others;
  for (int i = 0; i < 1100; ++i) {
    list.push_back(full({i % 5}, 2, DType::f32, Device::cuda));
    others.push_back(full({i % 5}, 3, DType::f32, Device::cuda));
  }
  const Moved launches("cuda.launches");
  const Tensor norm = norm_of(list);
  lerp_each(list, others, 0.5);
  EXPECT_EQ(launches, 3 + 3);  // 512 tensors each
  EXPECT_FLOAT_EQ(norm.item(), std::sqrt(2200 * 4.0));
  for (const Tensor& t : list) EXPECT_EQ(difference(full(t.shape(), 2.5), t), 0);
}

TEST_F(CoreOnDevice, DrawsTheSameNumbers) {
  const RngKey key{.seed = 5, .purpose = Purpose::test, .site = 77, .step = 3};
  for (const int64_t n : kSizes) {
    EXPECT_EQ(difference(randperm(n, key, Device::cpu), randperm(n, key, Device::cuda)), 0) << n;
    for (const DType dtype : kFloats) {
      const Tensor t({n}, dtype), t_({n}, dtype, Device::cuda);
      fill_uniform(t, -1, 2, key);
      fill_uniform(t_, -1, 2, key);
      EXPECT_LE(difference(t, t_), rounding(dtype)) << n;
      fill_normal(t, -1, 2, key);
      fill_normal(t_, -1, 2, key);
      EXPECT_LE(difference(t, t_), std::max(1e-6, rounding(dtype))) << n;
    }
  }
}

TEST_F(CoreOnDevice, CountsForwardPasses) {
  for (const Device device : {Device::cpu, Device::cuda}) {
    const DeviceStepState state(device);
    state.begin_forward();
    state.begin_forward();
    EXPECT_EQ(state.read().forwards, 2) << device;
  }
}

TEST_F(CoreOnDevice, AMomentIsPassedAfterTheWorkBeforeIt) {
  const Stream stream = current_stream(Device::cuda);
  const Tensor t({1 << 16}, DType::f32, Device::cuda);
  const Moment begin(stream);
  for (int i = 0; i < 8; ++i) fill(t, i);
  const Moment middle(stream);
  for (int i = 0; i < 8; ++i) fill(t, i);
  const Moment end(stream);
  synchronize(stream);
  EXPECT_GT(middle.ms_since(begin), 0);
  EXPECT_GT(end.ms_since(middle), 0);
  EXPECT_NEAR(end.ms_since(begin), middle.ms_since(begin) + end.ms_since(middle), 1e-3);
  EXPECT_EQ(refused([&] { end.ms_since(Moment{current_stream(Device::cpu)}); }).exit, Exit::usage);
}

TEST_F(CoreOnDevice, ASyncGuardWarnsOnceOfEachLineOnWhichTheHostWaits) {
  const Tensor one = full({1}, 1, DType::f32, Device::cuda);
  take_sync_reports();
  const Moved found("sync.guarded");
  const SyncGuard guard(OnSync::warn);
  for (int i = 0; i < 2; ++i) {
    one.item();
    to(Device::cpu, one);
    synchronize(current_stream(Device::cuda));
  }
  EXPECT_EQ(found, 6);
  const auto here = HasSubstr("the host waits for the device at tests/core/device_test.cpp:");
  EXPECT_THAT(take_sync_reports(), ElementsAre(here, here, here));
  const SyncGuard strict(OnSync::refuse);
  EXPECT_THAT(refusal([&] { one.item(); }), here);
}
