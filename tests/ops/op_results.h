// Runs registered ops and compares their results. Shared by the tests of all ops, on the CPU and on
// a device.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "ops/base/op.h"
#include "tests/difference.h"

namespace bellows {

inline void PrintTo(const OpSpec& op, std::ostream* out) { *out << op.name << ' ' << op.variant; }

// ---- inputs in any memory format

inline Tensor with_strides(const Tensor& t, const Strides& strides, int64_t offset, int64_t room) {
  const Tensor y = full({room}, NAN, t).view(t.shape(), strides, offset);
  kernels::copy(y, t);
  return require_grad(y);
}

inline Tensor in_format(const Tensor& t, const MemoryFormat& format) {
  if (t.rank() != 4) return require_grad(t.detach());
  return with_strides(t, strides_of(t.shape(), format), 0, t.numel());
}

// Returns a copy with axes in reverse order in memory, gaps of one element, and NaN in the gaps and
// before it.
inline Tensor with_gaps(const Tensor& t) {
  Strides strides = t.shape();
  int64_t step = 2;
  for (int i = 0; i < t.rank(); ++i) {
    strides[i] = step;
    step *= t.dim(i);
  }
  return with_strides(t, strides, 3, step + 3);
}

inline Inputs each(const Inputs& inputs, const auto& change) {
  Inputs changed;
  for (const Tensor& t : inputs) changed.push_back(change(t));
  return changed;
}

// The op with an incoming gradient of other strides than y: gaps, and axes in another order.
inline OpFn with_gaps_in_gradient(const OpFn& fn) {
  return [&fn](const Inputs& in) {
    const Tensor y = fn(in);
    return record("gaps", y, {y}, [](const Tensor& dy) { return Grads{with_gaps(dy).detach()}; });
  };
}

// ---- results

// y and the gradient of every input, row-major and on the CPU, so that their bytes can be compared.
struct Result {
  std::vector<Tensor> tensors;
};

// Returns a scalar whose backward sends an irregular gradient to y, with the strides of y. Its
// values are those that `rounded` can hold.
inline Tensor probe(const Tensor& y, DType rounded) {
  return record("probe", full({}, 0, y), {y}, [like = y.detach(), rounded](const Tensor&) {
    const Tensor weights(like.shape(), DType::f64), dy = empty_like(like);
    for (int64_t i = 0; i < like.numel(); ++i) weights.data<double>()[i] = std::cos(i + 1.0);
    copy_into(dy, to(like.device(), cast(cast(weights, rounded), like.dtype())));
    return Grads{dy};
  });
}

inline Result result_of(const OpSpec& op, const OpFn& fn, const Inputs& inputs, DType rounded) {
  const Tensor y = fn(inputs);
  std::vector<Tensor> tensors{y.detach()};
  if (op.differentiable) {
    backward(probe(y, rounded));
    for (const Tensor& t : inputs) tensors.push_back(grad(t));
  } else {
    EXPECT_FALSE(needs_grad(y));
  }
  Result result;
  for (const Tensor& t : tensors) result.tensors.push_back(to(Device::cpu, contiguous(t)));
  synchronize(current_stream(y.device()));
  return result;
}

inline Result run(const OpSpec& op, const OpFn& fn, const Inputs& inputs,
                  const KernelOptions& options) {
  const Kernels use(options);
  return result_of(op, fn, inputs, inputs[0].dtype());
}
inline Result run(const OpSpec& op, const OpFn& fn, const Inputs& inputs, bool vendor = false) {
  return run(op, fn, inputs, {.vendor = vendor});
}

// Algorithms that autotuning may choose for the kernels of an op, besides the plain ones.
inline std::vector<const char*> algorithms_of(const OpSpec& op, Device device = Device::cpu) {
  std::vector<const char*> names;
  for (const KernelRecord* kernel : kernel_records())
    for (const char* name : kernel->algorithms[static_cast<int>(device)])
      if (name && std::string_view(kernel->name).starts_with(op.name) &&
          !std::ranges::count(names, name))
        names.push_back(name);
  return names;
}

inline std::string name_of_result(size_t k) { return k ? cat("gradient of input ", k - 1) : "y"; }

// Integers must be equal.
inline void expect_close(const Result& want, const Result& got, double tolerance) {
  ASSERT_EQ(want.tensors.size(), got.tensors.size());
  for (size_t k = 0; k < want.tensors.size(); ++k) {
    const Tensor &a = want.tensors[k], &b = got.tensors[k];
    ASSERT_EQ(a.shape(), b.shape()) << name_of_result(k);
    EXPECT_LE(difference(a, b), is_float(a.dtype()) ? tolerance : 0) << name_of_result(k);
  }
}

inline void expect_same_bits(const Result& want, const Result& got) {
  for (size_t k = 0; k < want.tensors.size(); ++k) {
    const Tensor &a = want.tensors[k], &b = got.tensors[k];
    EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), a.nbytes()), 0) << name_of_result(k);
  }
}

inline double f32_tolerance(const OpSpec& op) { return op.close_f32 ? 1e-5 : 1e-4; }
inline constexpr double kF64 = 1e-11;

inline std::vector<Shapes> all_shapes(const OpSpec& op) {
  std::vector<Shapes> all = op.cases;
  all.insert(all.end(), op.large.begin(), op.large.end());
  return all;
}

inline std::string describe(const OpSpec& op, const Shapes& shapes) {
  std::string text = cat(op.name, " ", op.variant);
  for (const Shape& shape : shapes) text += cat(" ", shape);
  return text;
}

// ---- suites

inline std::vector<OpSpec> specs_where(bool (*holds)(const OpSpec&)) {
  std::vector<OpSpec> specs;
  std::ranges::copy_if(op_specs(), std::back_inserter(specs), holds);
  return specs;
}

class Op : public testing::TestWithParam<OpSpec> {
 protected:
  const OpSpec& op = GetParam();
};

inline std::string test_name(const testing::TestParamInfo<OpSpec>& info) {
  std::string name = cat(info.param.name, *info.param.variant ? "_" : "", info.param.variant);
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
}

}  // namespace bellows
