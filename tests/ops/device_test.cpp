// Checks every registered op on a device against the plain CPU kernels. Adding an op adds its
// tests; this file never changes.
#include <set>
#include "core/base/trace.h"
#include "ops/norm/batch_norm.h"
#include "tests/guards.h"
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
class FusedOpOnDevice : public OpOnDevice {};

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

TEST_P(FusedOpOnDevice, ComposedEqualsTheCpuToo) {
  for (const Shapes& shapes : all_shapes(op)) compare(op, op.composed, shapes, DType::f32);
}

// The incoming gradient has other strides than y: gaps, and axes in another order.
TEST_P(OpOnDevice, EqualsTheCpuForAGradientWithGaps) {
  const OpFn strided = [&](const Inputs& in) {
    const Tensor y = op.run(in);
    return record("gaps", y, {y}, [](const Tensor& dy) { return Grads{with_gaps(dy).detach()}; });
  };
  if (!op.differentiable) return;
  for (const Shapes& shapes : op.cases) compare(op, strided, shapes, DType::f32);
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
  const trace::Counter &waits = trace::counter("sync.count"),
                       &copied = trace::counter("copy.d2h_bytes");
  const Inputs inputs =
      each(make_inputs(op, op.cases[0], DType::f32), [](const Tensor& t) { return on_device(t); });
  const Tensor y = op.run(inputs);
  const int64_t waits_before = waits.value(), copied_before = copied.value();
  op.run(inputs);
  if (op.differentiable) backward(probe(y, DType::f32));
  EXPECT_EQ(waits.value(), waits_before);
  EXPECT_EQ(copied.value(), copied_before);
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

INSTANTIATE_TEST_SUITE_P(All, OpOnDevice, testing::ValuesIn(op_specs()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FusedOpOnDevice);
INSTANTIATE_TEST_SUITE_P(All, FusedOpOnDevice, testing::ValuesIn(specs_where([](const OpSpec& op) {
                           return bool(op.composed);
                         })),
                         test_name);
