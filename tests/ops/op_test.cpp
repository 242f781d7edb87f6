// Every registered op, checked the same way. Adding an op adds its tests; this file never changes.
#include "ops/op_inputs.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include <set>
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/copy.h"
#include "core/parallel.h"
#include "core/trace.h"

using namespace bellows;

namespace bellows {
static void PrintTo(const OpSpec& op, std::ostream* out) { *out << op.name << ' ' << op.variant; }
}  // namespace bellows

namespace {

// ---- inputs

Tensor with_strides(const Tensor& t, const Strides& strides, int64_t offset, int64_t room) {
  const Tensor y = full({room}, NAN, t).view(t.shape(), strides, offset);
  kernels::copy(y, t);
  return require_grad(y);
}

Tensor in_format(const Tensor& t, const MemoryFormat& format) {
  if (t.rank() != 4) return require_grad(t.detach());
  return with_strides(t, strides_of(t.shape(), format), 0, t.numel());
}

// A view of every second element, axes in reverse order in memory, NaN between them and in front.
Tensor with_gaps(const Tensor& t) {
  Strides strides = t.shape();
  int64_t step = 2;
  for (int i = 0; i < t.rank(); ++i) {
    strides[i] = step;
    step *= t.dim(i);
  }
  return with_strides(t, strides, 3, step + 3);
}

Inputs each(const Inputs& inputs, const auto& change) {
  Inputs changed;
  for (const Tensor& t : inputs) changed.push_back(change(t));
  return changed;
}

// ---- results

// y and the gradient of every input, row-major, so that their bytes can be compared.
struct Result {
  std::vector<Tensor> tensors;
};

Result result_of(const OpSpec& op, const OpFn& fn, const Inputs& inputs) {
  const Tensor y = fn(inputs);
  Result result{{contiguous(y.detach())}};
  if (!op.differentiable) {
    EXPECT_FALSE(needs_grad(y));
    return result;
  }
  backward(probe_loss(y));
  for (const Tensor& t : inputs) result.tensors.push_back(contiguous(grad(t)));
  return result;
}

Result run(const OpSpec& op, const OpFn& fn, const Inputs& inputs, bool vendor = false) {
  const Kernels use({.vendor = vendor});
  return result_of(op, fn, inputs);
}

// Largest difference, relative to the largest magnitude where that is not nearly 0; NaN if there is
// one on either side.
double difference(const Tensor& a, const Tensor& b) {
  const Tensor a_ = cast(a, DType::f64), b_ = cast(b, DType::f64);
  double worst = 0, largest = 1e-3;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a_.data<double>()[i], y = b_.data<double>()[i];
    if (std::isnan(x) || std::isnan(y)) return NAN;
    worst = std::max(worst, std::abs(x - y));
    largest = std::max(largest, std::abs(x));
  }
  return worst / largest;
}

std::string name_of_result(size_t k) { return k ? cat("gradient of input ", k - 1) : "y"; }

void expect_close(const Result& want, const Result& got, double tolerance) {
  ASSERT_EQ(want.tensors.size(), got.tensors.size());
  for (size_t k = 0; k < want.tensors.size(); ++k) {
    const Tensor &a = want.tensors[k], &b = got.tensors[k];
    ASSERT_EQ(a.shape(), b.shape()) << name_of_result(k);
    EXPECT_LE(difference(a, b), tolerance) << name_of_result(k);
  }
}

void expect_same_bits(const Result& want, const Result& got) {
  for (size_t k = 0; k < want.tensors.size(); ++k) {
    const Tensor &a = want.tensors[k], &b = got.tensors[k];
    EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), a.nbytes()), 0) << name_of_result(k);
  }
}

double f32_tolerance(const OpSpec& op) { return op.close_f32 ? 1e-5 : 1e-4; }
constexpr double kF64 = 1e-11;

std::vector<Shapes> all_shapes(const OpSpec& op) {
  std::vector<Shapes> all = op.cases;
  all.insert(all.end(), op.large.begin(), op.large.end());
  return all;
}

std::string describe(const OpSpec& op, const Shapes& shapes) {
  std::string text = cat(op.name, " ", op.variant);
  for (const Shape& shape : shapes) text += cat(" ", shape);
  return text;
}

}  // namespace

static std::vector<OpSpec> specs_where(bool (*holds)(const OpSpec&)) {
  std::vector<OpSpec> specs;
  std::ranges::copy_if(op_specs(), std::back_inserter(specs), holds);
  return specs;
}

class Op : public testing::TestWithParam<OpSpec> {
 protected:
  const OpSpec& op = GetParam();
};
class DifferentiableOp : public Op {};
class FusedOp : public Op {};

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

TEST_P(Op, AnyMemoryFormatGivesTheSame) {
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
  const trace::Counter &bytes = trace::counter("mem.saved_bytes"),
                       &nodes = trace::counter("graph.nodes");
  const Inputs inputs = make_inputs(op, op.cases[0], DType::f32);
  const auto detached = each(inputs, [](const Tensor& t) { return t.detach(); });
  const int64_t bytes_before = bytes.value(), nodes_before = nodes.value();
  EXPECT_FALSE(needs_grad(op.run(detached)));
  {
    const NoGrad guard;
    EXPECT_FALSE(needs_grad(op.run(inputs)));
  }
  EXPECT_EQ(bytes.value(), bytes_before);
  EXPECT_EQ(nodes.value(), nodes_before);
}

// The gradient that arrives has other strides than y: gaps, or the axes in another order.
TEST_P(DifferentiableOp, GradientWithGapsGivesTheSame) {
  const OpFn strided = [&](const Inputs& in) {
    const Tensor y = op.run(in);
    return record("gaps", y, {y}, [](const Tensor& dy) { return Grads{with_gaps(dy).detach()}; });
  };
  for (const Shapes& shapes : op.cases)
    for (const bool vendor : {false, true}) {
      SCOPED_TRACE(cat(describe(op, shapes), vendor ? " vendor" : ""));
      const DType dtype = vendor ? DType::f32 : DType::f64;
      const Inputs a = make_inputs(op, shapes, dtype), b = make_inputs(op, shapes, dtype);
      expect_close(run(op, op.run, a, vendor), run(op, strided, b, vendor),
                   vendor ? f32_tolerance(op) : kF64);
    }
}

TEST_P(Op, WritesAllOfItsOutputsAndNothingElse) {
  for (const Shapes& shapes : all_shapes(op))
    for (const bool vendor : {false, true}) {
      SCOPED_TRACE(cat(describe(op, shapes), vendor ? " vendor" : ""));
      guard_complaint();
      guard_allocations(true);
      {
        const auto result = run(op, op.run, make_inputs(op, shapes, DType::f32), vendor);
        for (const Tensor& t : result.tensors) {
          EXPECT_TRUE(!is_float(t.dtype()) || all_finite(t));
        }
      }
      guard_allocations(false);
      EXPECT_EQ(guard_complaint(), "");
    }
}

// In f64, where no rounding to f32 hides that a sum was cut in another way.
TEST_P(Op, AnyNumberOfThreadsGivesTheSameBits) {
  const int before = omp_get_max_threads();
  for (const Shapes& shapes : all_shapes(op)) {
    SCOPED_TRACE(describe(op, shapes));
    std::vector<Result> results;
    for (const int threads : {1, 2, 4}) {
      omp_set_num_threads(threads);
      results.push_back(run(op, op.run, make_inputs(op, shapes, DType::f64)));
    }
    for (const Result& other : results) expect_same_bits(results[0], other);
  }
  omp_set_num_threads(before);
}

TEST_P(Op, RefusesBadShapesByNameAndValue) {
  for (const Shapes& shapes : op.rejects) {
    SCOPED_TRACE(describe(op, shapes));
    try {
      op.run(make_inputs(op, shapes, DType::f32));
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit, Exit::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr(op.name));
      std::vector<testing::Matcher<std::string>> any;
      for (const Shape& shape : shapes) any.push_back(testing::HasSubstr(cat(shape)));
      EXPECT_THAT(std::string(error.what()), testing::AnyOfArray(any));
    }
  }
}

static std::string test_name(const testing::TestParamInfo<OpSpec>& info) {
  std::string name = cat(info.param.name, *info.param.variant ? "_" : "", info.param.variant);
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Op, testing::ValuesIn(op_specs()), test_name);
INSTANTIATE_TEST_SUITE_P(All, DifferentiableOp, testing::ValuesIn(specs_where([](const OpSpec& op) {
                           return op.differentiable;
                         })),
                         test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FusedOp);
INSTANTIATE_TEST_SUITE_P(All, FusedOp, testing::ValuesIn(specs_where([](const OpSpec& op) {
                           return bool(op.composed);
                         })),
                         test_name);
