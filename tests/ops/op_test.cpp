// Every registered op, checked the same way. Adding an op adds its tests; this file never changes.
#include <set>
#include "autograd/gradcheck.h"
#include "autograd/op_log.h"
#include "core/device/parallel.h"
#include "ops/base/work.h"
#include "tests/guards.h"
#include "tests/moved.h"
#include "tests/ops/op_results.h"
#include "tests/refusal.h"

using namespace bellows;

class DifferentiableOp : public Op {};
class FusedOp : public Op {};
class OpWithAlgorithms : public Op {};
class OpOnImages : public Op {};

TEST_P(DifferentiableOp, GradientEqualsTheDifferenceQuotient) {
  for (const Shapes& shapes : op.cases) {
    const Inputs inputs = make_inputs(op, shapes, DType::f64);
    EXPECT_EQ(gradcheck(op.name, op.run, inputs), "") << describe(op, shapes);
    std::set<Storage*> storages;
    for (const Tensor& t : inputs) storages.insert(grad(t).storage().get());
    EXPECT_EQ(storages.size(), inputs.size()) << "two leaves share one gradient";
  }
}

TEST_P(FusedOp, EqualsComposed) {
  for (const Shapes& shapes : all_shapes(op)) {
    SCOPED_TRACE(describe(op, shapes));
    const Inputs a = make_inputs(op, shapes, DType::f64), b = make_inputs(op, shapes, DType::f64);
    expect_close(run(op, op.composed, a), run(op, op.run, b), kF64);
  }
}

TEST_P(Op, VendorKernelsEqualPlainOnes) {
  for (const Shapes& shapes : all_shapes(op)) {
    SCOPED_TRACE(describe(op, shapes));
    const Inputs a = make_inputs(op, shapes, DType::f32), b = make_inputs(op, shapes, DType::f32);
    expect_close(run(op, op.run, a), run(op, op.run, b, true), f32_tolerance(op));
  }
}

// Arithmetic is in f32. Each result of a kernel is rounded by up to 2^-9 (bf16) or 2^-12 (f16), and
// a gradient combines several of them.
static void expect_the_same_rounded(const OpSpec& op, const Shapes& shapes, DType dtype,
                                    const KernelOptions& options) {
  SCOPED_TRACE(cat(describe(op, shapes), " ", dtype, options.vendor ? " vendor" : " ",
                   options.algorithm ? options.algorithm : ""));
  const Inputs low = make_inputs(op, shapes, dtype);
  const auto widen = [](const Tensor& t) { return require_grad(cast(t.detach(), DType::f32)); };
  const Result want = op.rounds_each_step ? result_of(op, op.composed, low, dtype)
                                          : result_of(op, op.run, each(low, widen), dtype);
  const Kernels use(options);
  const Result got = result_of(op, op.run, low, dtype);
  EXPECT_TRUE(got.tensors[0].dtype() == dtype || !is_float(got.tensors[0].dtype()));
  expect_close(want, got, dtype == DType::bf16 ? 0x1p-6 : 0x1p-9);
}

TEST_P(Op, InSixteenBitsGivesTheSameRoundedOrRefuses) {
  std::vector<KernelOptions> all{{}, {.vendor = true}};
  for (const char* algorithm : algorithms_of(op)) all.push_back({.algorithm = algorithm});
  try {
    for (const Shapes& shapes : all_shapes(op))
      for (const DType dtype : {DType::bf16, DType::f16})
        for (const KernelOptions& options : all)
          expect_the_same_rounded(op, shapes, dtype, options);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "needs f32 or f64, got bf16");
    GTEST_SKIP() << error.what();
  }
}

TEST_P(OpWithAlgorithms, EqualsThePlainOneInAnyMemoryFormat) {
  for (const char* algorithm : algorithms_of(op))
    for (const Shapes& shapes : all_shapes(op))
      for (const DType dtype : {DType::f64, DType::f32}) {
        const Inputs inputs = make_inputs(op, shapes, dtype);
        const Result want = run(op, op.run, inputs);
        for (const MemoryFormat& format : {kNCHW, kNHWC}) {
          SCOPED_TRACE(cat(describe(op, shapes), " ", algorithm, " ", dtype, " ", format.name));
          const auto ordered = each(inputs, [&](const Tensor& t) { return in_format(t, format); });
          guard_complaint();
          guard_allocations(true);
          expect_close(want, run(op, op.run, ordered, {.algorithm = algorithm}),
                       dtype == DType::f64 ? kF64 : f32_tolerance(op));
          guard_allocations(false);
          EXPECT_EQ(guard_complaint(), "");
        }
      }
}

TEST_P(OpOnImages, AnyMemoryFormatGivesTheSame) {
  for (const Shapes& shapes : op.cases)
    for (const MemoryFormat& format : {kNHWC, kCHWN})
      for (const bool vendor : {false, true}) {
        SCOPED_TRACE(cat(describe(op, shapes), " ", format.name, vendor ? " vendor" : ""));
        const DType dtype = vendor ? DType::f32 : DType::f64;
        const Inputs inputs = make_inputs(op, shapes, dtype);
        const auto want = run(op, op.run, inputs, vendor);
        const auto all = each(inputs, [&](const Tensor& t) { return in_format(t, format); });
        expect_close(want, run(op, op.run, all, vendor), vendor ? f32_tolerance(op) : kF64);
        Inputs mixed = make_inputs(op, shapes, dtype);
        mixed[0] = in_format(mixed[0], format);
        expect_close(want, run(op, op.run, mixed, vendor), vendor ? f32_tolerance(op) : kF64);
      }
}

TEST_P(Op, InputsWithGapsGiveTheSame) {
  for (const Shapes& shapes : op.cases)
    for (const bool vendor : {false, true}) {
      SCOPED_TRACE(cat(describe(op, shapes), vendor ? " vendor" : ""));
      const Inputs inputs = make_inputs(op, shapes, vendor ? DType::f32 : DType::f64);
      const auto want = run(op, op.run, inputs, vendor);
      const auto got = run(op, op.run, each(inputs, with_gaps), vendor);
      expect_close(want, got, vendor ? f32_tolerance(op) : kF64);
    }
}

TEST_P(Op, WithoutAGradientSavesAndRecordsNothing) {
  const Inputs inputs = make_inputs(op, op.cases[0], DType::f32);
  const auto detached = each(inputs, [](const Tensor& t) { return t.detach(); });
  const Moved bytes("mem.saved_bytes"), nodes("graph.nodes");
  EXPECT_FALSE(needs_grad(op.run(detached)));
  {
    const NoGrad guard;
    EXPECT_FALSE(needs_grad(op.run(inputs)));
  }
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(nodes, 0);
}

TEST_P(DifferentiableOp, GradientWithGapsGivesTheSame) {
  for (const Shapes& shapes : op.cases)
    for (const bool vendor : {false, true}) {
      SCOPED_TRACE(cat(describe(op, shapes), vendor ? " vendor" : ""));
      const DType dtype = vendor ? DType::f32 : DType::f64;
      const Inputs a = make_inputs(op, shapes, dtype), b = make_inputs(op, shapes, dtype);
      expect_close(run(op, op.run, a, vendor), run(op, with_gaps_in_gradient(op.run), b, vendor),
                   vendor ? f32_tolerance(op) : kF64);
    }
}

TEST_P(Op, WritesAllOfItsOutputsAndNothingElse) {
  for (const Shapes& shapes : all_shapes(op))
    for (const auto& [dtype, vendor] :
         {std::pair(DType::f64, false), {DType::f32, false}, {DType::f32, true}}) {
      SCOPED_TRACE(cat(describe(op, shapes), " ", dtype, vendor ? " vendor" : ""));
      guard_complaint();
      guard_allocations(true);
      {
        const auto result = run(op, op.run, make_inputs(op, shapes, dtype), vendor);
        for (const Tensor& t : result.tensors) {
          EXPECT_TRUE(!is_float(t.dtype()) || all_finite(t));
        }
      }
      guard_allocations(false);
      EXPECT_EQ(guard_complaint(), "");
    }
}

// An element of y needs at most a multiply-add, or four as in a pooled convolution, for each
// element of an operand. Each pass reads and writes a tensor a few times at most.
TEST_P(DifferentiableOp, StatesNoMoreWorkThanItsOperandsAllow) {
  for (const Shapes& shapes : op.cases) {
    OpLog log;
    const Tensor y = op.run(make_inputs(op, shapes, DType::f32));
    EXPECT_FALSE(log.ops.empty());
    for (const RecordedOp& recorded : log.ops) {
      if (recorded.name == "einsum") continue;  // its shapes do not show its work
      const OpWork work = work_of(recorded);
      double largest = 1, bytes = 4 * double(recorded.y.numel());
      for (const Operand& input : recorded.inputs) {
        if (!input.defined) continue;
        largest = std::max(largest, double(input.shape.numel()));
        bytes += input.bytes();
      }
      for (const Cost& pass : {work.forward, work.backward}) {
        EXPECT_LE(pass.flop, 16 * double(recorded.y.numel()) * largest) << recorded.name;
        EXPECT_LE(pass.bytes, 16 * bytes) << recorded.name;
      }
    }
  }
}

// In f64, so that rounding to f32 cannot hide a sum that was split differently.
TEST_P(Op, AnyNumberOfThreadsGivesTheSameBits) {
  const int before = omp_get_max_threads();
  std::vector<const char*> algorithms = algorithms_of(op);
  algorithms.push_back(nullptr);
  for (const char* algorithm : algorithms)
    for (const Shapes& shapes : all_shapes(op)) {
      SCOPED_TRACE(cat(describe(op, shapes), " ", algorithm ? algorithm : ""));
      std::vector<Result> results;
      for (const int threads : {1, 2, 4}) {
        omp_set_num_threads(threads);
        const Inputs inputs = make_inputs(op, shapes, DType::f64);
        results.push_back(run(op, op.run, inputs, {.algorithm = algorithm}));
      }
      for (const Result& other : results) expect_same_bits(results[0], other);
    }
  omp_set_num_threads(before);
}

TEST_P(Op, RefusesBadShapesByNameAndValue) {
  for (const Shapes& shapes : op.rejects) {
    SCOPED_TRACE(describe(op, shapes));
    const Refusal refusal = refused([&] { op.run(make_inputs(op, shapes, DType::f32)); });
    EXPECT_EQ(refusal.exit, Exit::usage);
    EXPECT_THAT(refusal.message, testing::HasSubstr(op.name));
    std::vector<testing::Matcher<std::string>> any;
    for (const Shape& shape : shapes) any.push_back(testing::HasSubstr(cat(shape)));
    EXPECT_THAT(refusal.message, testing::AnyOfArray(any));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Op, testing::ValuesIn(op_specs()), test_name);
INSTANTIATE_TEST_SUITE_P(All, DifferentiableOp, testing::ValuesIn(specs_where([](const OpSpec& op) {
                           return op.differentiable;
                         })),
                         test_name);
INSTANTIATE_TEST_SUITE_P(All, OpWithAlgorithms, testing::ValuesIn(specs_where([](const OpSpec& op) {
                           return !algorithms_of(op).empty();
                         })),
                         test_name);
// Only tensors of rank 4 have memory formats.
INSTANTIATE_TEST_SUITE_P(All, OpOnImages, testing::ValuesIn(specs_where([](const OpSpec& op) {
                           const auto is_image = [](const Shape& shape) {
                             return shape.rank() == 4;
                           };
                           return std::ranges::any_of(op.cases, [&](const Shapes& shapes) {
                             return std::ranges::any_of(shapes, is_image);
                           });
                         })),
                         test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FusedOp);
INSTANTIATE_TEST_SUITE_P(All, FusedOp, testing::ValuesIn(specs_where([](const OpSpec& op) {
                           return bool(op.composed);
                         })),
                         test_name);
