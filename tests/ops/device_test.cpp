// Checks every registered op on a device against the plain CPU kernels. Adding an op adds its
// tests. A table has further sizes for kernels that work in tiles, pieces or shares.
#include <set>
#include "ops/conv/conv2d.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/conv/pool.h"
#include "tests/guards.h"
#include "tests/moved.h"
#include "tests/on_device.h"
#include "tests/ops/op_results.h"
#include "tests/twins.h"

using namespace bellows;

namespace {

constexpr DType kFloats[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

// Relative to the largest magnitude. The CPU computes in f32 or f64 from the same inputs. Each
// 16-bit result on the device is rounded by up to 2^-9 (bf16) or 2^-12 (f16), and a gradient
// combines several of them; in a chain of layers, those of each layer.
double tolerance(const OpSpec& op, DType dtype) {
  const double chained = op.rounds_each_step ? 2 : 1;
  if (dtype == DType::bf16) return chained * 0x1p-6;
  if (dtype == DType::f16) return chained * 0x1p-9;
  return dtype == DType::f64 ? kF64 : f32_tolerance(op);
}

DType twin_of(DType dtype) { return size_of(dtype) == 2 ? DType::f32 : dtype; }

using Layout = Tensor (*)(const Tensor& t);
Tensor row_major(const Tensor& t) { return require_grad(t.detach()); }
Tensor nhwc(const Tensor& t) { return in_format(t, kNHWC); }
Tensor chwn(const Tensor& t) { return in_format(t, kCHWN); }
// NHWC, and matrices by columns.
Tensor turned(const Tensor& t) {
  if (t.rank() == 4 || t.rank() < 2) return nhwc(t);
  Strides strides = strides_of(t.shape());
  strides[-2] = 1, strides[-1] = t.dim(-2);
  return with_strides(t, strides, 0, t.numel());
}
// NHWC, or row-major, from an address on which no piece of 16 bytes is aligned.
Tensor askew(const Tensor& t) {
  return with_strides(t, strides_of(t.shape(), t.rank() == 4 ? kNHWC : kNCHW), 1, t.numel() + 1);
}

Tensor on_device(const Tensor& t) { return require_grad(to(Device::cuda, t.detach())); }

// Result of the plain CPU kernels for inputs rounded to that dtype.
Result expected(const OpSpec& op, const OpFn& fn, const Shapes& shapes, DType dtype) {
  const auto widen = [&](const Tensor& t) {
    return require_grad(cast(t.detach(), twin_of(dtype)));
  };
  return result_of(op, fn, each(make_inputs(op, shapes, dtype), widen), dtype);
}

Result on_device(const OpSpec& op, const OpFn& fn, const Shapes& shapes, DType dtype,
                 Layout layout = row_major) {
  const auto place = [&](const Tensor& t) { return layout(on_device(t)); };
  return result_of(op, fn, each(make_inputs(op, shapes, dtype), place), dtype);
}

// Returns whether any kernel of these runs has a library's implementation.
bool vendor_had_a_say(const RunCount& runs) {
  return std::ranges::any_of(kernel_records(), [&](const KernelRecord* kernel) {
    return kernel->vendor[kCuda] && runs.on(kCuda, kernel) > 0;
  });
}

// Algorithms that autotuning could have chosen in these runs instead of the plain kernels.
std::set<std::string_view> algorithms_of(const RunCount& runs) {
  std::set<std::string_view> names;
  for (const KernelRecord* kernel : kernel_records())
    for (const char* name : kernel->algorithms[kCuda])
      if (name && runs.on(kCuda, kernel) > 0) names.insert(name);
  return names;
}

void compare(const OpSpec& op, const OpFn& fn, const Shapes& shapes, DType dtype,
             Layout layout = row_major) {
  SCOPED_TRACE(cat(describe(op, shapes), " ", dtype));
  const bool as_twin = size_of(dtype) == 2 && op.rounds_each_step;
  const auto expect_with = [&](const KernelOptions& options, const Result& want) {
    const Kernels use(options);
    const Result got = on_device(op, fn, shapes, dtype, layout);
    expect_close(as_twin ? on_device(op, op.composed, shapes, dtype, layout) : want, got,
                 tolerance(op, dtype));
  };
  const Result want = as_twin ? Result() : expected(op, fn, shapes, dtype);
  const RunCount runs;
  expect_with({}, want);
  SCOPED_TRACE("vendor");
  if (vendor_had_a_say(runs)) expect_with({.vendor = true}, want);
  for (const std::string_view algorithm : algorithms_of(runs)) {
    SCOPED_TRACE(algorithm);
    for (const bool vendor : {false, true})
      expect_with({.vendor = vendor, .algorithm = algorithm.data()}, want);
  }
}

// Reduces large even sizes by one, so that they are no multiple of a warp, a block or a pack.
Shapes odd(const Shapes& shapes) {
  Shapes smaller;
  for (Shape shape : shapes) {
    for (int i = 0; i < shape.rank(); ++i) shape[i] -= shape[i] > 16 && shape[i] % 2 == 0;
    smaller.push_back(shape);
  }
  return smaller;
}

}  // namespace

class OpOnDevice : public OnDevice<Op> {};

TEST_P(OpOnDevice, EqualsTheCpuInEveryPrecision) {
  for (const Shapes& shapes : op.cases)
    for (const DType dtype : kFloats) compare(op, op.run, shapes, dtype);
}

TEST_P(OpOnDevice, EqualsTheCpuAtLargeSizes) {
  for (const Shapes& shapes : op.large) {
    compare(op, op.run, shapes, DType::f32);
    compare(op, op.run, shapes, DType::f16);
    compare(op, op.run, odd(shapes), DType::f64);
    compare(op, op.run, odd(shapes), DType::bf16);
  }
}

TEST_P(OpOnDevice, EqualsTheCpuInAnyMemoryFormat) {
  for (const Shapes& shapes : op.cases)
    for (const Layout layout : {nhwc, chwn, with_gaps})
      for (const DType dtype : {DType::f32, DType::bf16})
        compare(op, op.run, shapes, dtype, layout);
}

TEST_P(OpOnDevice, EqualsTheCpuForAGradientWithGaps) {
  if (!op.differentiable) return;
  for (const Shapes& shapes : op.cases)
    compare(op, with_gaps_in_gradient(op.run), shapes, DType::f32);
}

TEST_P(OpOnDevice, GivesTheSameBitsOnEachRun) {
  for (const Shapes& shapes : all_shapes(op)) {
    SCOPED_TRACE(describe(op, shapes));
    expect_same_bits(on_device(op, op.run, shapes, DType::f32),
                     on_device(op, op.run, shapes, DType::f32));
  }
}

TEST_P(OpOnDevice, WritesAllOfItsOutputsAndNothingElse) {
  guard_complaint();
  guard_allocations(true);
  for (const Shapes& shapes : all_shapes(op)) {
    SCOPED_TRACE(describe(op, shapes));
    for (const Tensor& t : on_device(op, op.run, shapes, DType::f32).tensors)
      EXPECT_TRUE(!is_float(t.dtype()) || all_finite(t));
  }
  guard_allocations(false);
  EXPECT_EQ(guard_complaint(), "");
}

TEST_P(OpOnDevice, WaitsForNothing) {
  const Inputs inputs =
      each(make_inputs(op, op.cases[0], DType::f32), [](const Tensor& t) { return on_device(t); });
  const Tensor y = op.run(inputs);
  const Moved waits("sync.count"), copied("copy.d2h_bytes");
  op.run(inputs);
  if (op.differentiable) backward(probe(y, DType::f32));
  EXPECT_EQ(waits, 0);
  EXPECT_EQ(copied, 0);
}

TEST(KernelsOnDevice, OfOpsAllRunAgainstTheirCpuTwins) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  const RunCount runs;
  for (const OpSpec& op : op_specs())
    for (const Shapes& shapes : op.cases) {
      compare(op, op.run, shapes, DType::f32);
      if (op.composed) compare(op, op.composed, shapes, DType::f32);
    }
  EXPECT_EQ(without_twin(runs, "ops"), "");
}

// ---- sizes on both sides of the borders of tiles, pieces of 16 bytes and shares

namespace {

struct Size {
  const char* op;
  Shapes shapes;
  OpFn run = nullptr;  // instead of the spec's
};

Size convolution(const Shape& x, const Shape& w, const Conv2dOptions& o) {
  return {
      "conv2d", {x, w, {w[0]}}, [o](const Inputs& in) { return conv2d(in[0], in[1], in[2], o); }};
}
Size fused_pool(const Shape& x, const Shape& w, int64_t padding) {
  return {"conv_act_pool", {x, w, {w[0]}}, [padding](const Inputs& in) {
            return conv_act_pool(in[0], in[1], in[2], padding, Impl::fused);
          }};
}

std::vector<Size> products() {
  return {{"matmul", {{1, 1}, {1, 1}}},  // narrow tiles
          {"matmul", {{15, 127}, {127, 17}}},
          {"matmul", {{16, 128}, {128, 16}}},
          {"matmul", {{2, 17, 129}, {2, 129, 15}}},
          {"matmul", {{33, 3}, {3, 1}}},
          {"matmul", {{3, 1, 300}, {3, 300, 31}}},
          {"matmul", {{132, 63, 15}, {132, 15, 17}}},  // wide ones: a tile per multiprocessor
          {"matmul", {{66, 64, 16}, {66, 16, 65}}},
          {"matmul", {{33, 65, 33}, {33, 33, 66}}},
          {"linear", {{1024, 5}, {3, 5}, {3}}},  // sums of rows
          {"linear", {{1025, 5}, {3, 5}, {3}}},
          {"linear", {{1600, 7}, {40, 7}, {40}}}};
}

std::vector<Size> convolutions() {
  return {convolution({1, 1, 1, 1}, {1, 1, 1, 1}, {}),
          convolution({3, 2, 7, 5}, {17, 2, 3, 3}, {.stride = 2, .padding = 1}),
          convolution({1, 5, 9, 8}, {16, 5, 1, 1}, {.stride = 3}),
          convolution({2, 2, 4, 3}, {2, 2, 4, 5}, {.stride = 2, .padding = 3}),
          convolution({1, 17, 93, 93}, {17, 17, 1, 1}, {}),  // wide tiles, the last one partial
          fused_pool({1, 1, 2, 2}, {1, 1, 1, 1}, 0),         // all kernels, rests of the pool
          fused_pool({2, 3, 5, 6}, {4, 3, 2, 3}, 0),
          fused_pool({5, 2, 7, 6}, {3, 2, 3, 3}, 1),
          fused_pool({3, 2, 6, 7}, {5, 2, 4, 4}, 3),
          fused_pool({2, 7, 6, 5}, {3, 7, 5, 5}, 2),
          fused_pool({1, 50, 4, 4}, {2, 50, 3, 3}, 1),   // more taps than a team has threads
          fused_pool({3, 1, 4, 5}, {300, 1, 2, 2}, 1)};  // channels that share tickets
}

std::vector<Size> pools() {
  std::vector<Size> all;
  const auto add = [&](const Shape& x, const Pool2dOptions& o) {
    all.push_back({"max_pool2d", {x}, [o](const Inputs& in) { return max_pool2d(in[0], o); }});
    all.push_back({"avg_pool2d", {x}, [o](const Inputs& in) { return avg_pool2d(in[0], o); }});
  };
  add({1, 2, 9, 8}, {.kernel = 2, .stride = 3});
  add({3, 1, 5, 5}, {.kernel = 5, .stride = 1, .padding = 2});
  add({1, 1, 1, 1}, {.kernel = 1, .stride = 1});
  add({1, 4, 19, 18}, {.kernel = 17, .stride = 1, .padding = 1});  // winners in 32 bits
  for (const int64_t channels : {16, 12, 5}) {
    add({2, channels, 7, 6}, {});
    add({2, channels, 7, 6}, {.kernel = 3, .stride = 2, .padding = 1});
  }
  for (const auto& [x, h, w] : {std::tuple(Shape{1, 4, 5, 6}, 1, 1), {Shape{2, 1, 2, 3}, 4, 5}})
    all.push_back({"adaptive_avg_pool2d", {x}, [h = h, w = w](const Inputs& in) {
                     return adaptive_avg_pool2d(in[0], h, w);
                   }});
  return all;
}

// Pieces of 16 bytes and of one element, several groups of rows, several tiles of channels, planes
// that are no multiple of a piece in an image that is, planes of one pixel, and matrices.
std::vector<Size> norms() {
  std::vector<Size> all;
  for (const Shape& x : {Shape{1, 16, 30, 35},
                         {2, 40, 13, 12},
                         {1, 300, 10, 13},
                         {3, 17, 7, 7},
                         {33, 3, 16, 16},
                         {35, 3, 15, 17},
                         {40, 8, 5, 7},
                         {40, 24, 1, 1},
                         {700, 40},
                         {300, 7}}) {
    all.push_back({"batch_norm", {x, {x[1]}, {x[1]}}});
    all.push_back({"batch_norm_relu", {x, {x[1]}, {x[1]}, x}});
  }
  return all;
}

// Rows that are a multiple of a piece of 16 bytes and rows that are not, scalars, and a rest.
std::vector<Size> chains() {
  return {{"pointwise", {{3, 4, 16}, {4, 1}, {}}},
          {"pointwise", {{3, 4, 5}, {4, 1}, {4, 1}}},
          {"pointwise", {{37}, {37}, {}}},
          {"pointwise", {{2, 3, 8}, {8}, {2, 1, 1}}}};
}

const OpSpec& spec_of(const Size& size) {
  return *std::ranges::find_if(op_specs(), [&](const OpSpec& op) {
    return std::string(op.name) == size.op && op.cases[0].size() == size.shapes.size();
  });
}

}  // namespace

class SizesOnDevice : public OnDevice<testing::TestWithParam<std::vector<Size> (*)()>> {};
INSTANTIATE_TEST_SUITE_P(Of, SizesOnDevice,
                         testing::Values(products, convolutions, pools, norms, chains));

// In f32, another order of a sum may decide which of two values a relu or a pool lets through.
TEST_P(SizesOnDevice, OnBothSidesOfBordersEqualTheCpu) {
  for (const Size& size : GetParam()()) {
    const OpSpec& op = spec_of(size);
    const std::string name = op.name;
    std::vector<DType> dtypes = {DType::f32, DType::bf16};
    if (name == "conv_act_pool" || name == "batch_norm_relu") dtypes = {DType::f64};
    for (const Layout layout : {row_major, turned, askew})
      for (const DType dtype : dtypes)
        compare(op, size.run ? size.run : op.run, size.shapes, dtype, layout);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpOnDevice, testing::ValuesIn(op_specs()), test_name);
