#include "autograd/gradcheck.h"
#include <cmath>
#include "autograd/backward.h"
#include "core/tensor/copy.h"

namespace bellows {

static double weight_of(int64_t i) { return std::cos(static_cast<double>(i + 1)); }

static double weighted_sum(const Tensor& y) {
  const Tensor dense = contiguous(y);
  return visit_float(y.dtype(), [&]<class T>(T) {
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += double(dense.ptr<T>()[i]) * weight_of(i);
    return sum;
  });
}

Tensor probe_loss(const Tensor& y) {
  return record("probe_loss", full({}, weighted_sum(y), y), {y},
                [like = y.detach()](const Tensor&) {
                  const Tensor weights(like.shape(), like.dtype()), dy = empty_like(like);
                  visit_float(like.dtype(), [&]<class T>(T) {
                    for (int64_t i = 0; i < like.numel(); ++i)
                      weights.ptr<T>()[i] = T(weight_of(i));
                  });
                  copy_into(dy, weights);
                  return Grads{dy};
                });
}

// Returns a reference to the i-th element in row-major order.
static double& element(const Tensor& t, int64_t i) {
  int64_t offset = 0;
  for (int axis = t.rank() - 1; axis >= 0; --axis) {
    offset += i % t.dim(axis) * t.strides()[axis];
    i /= t.dim(axis);
  }
  return t.ptr<double>()[offset];
}

// (f(x + h) - f(x - h)) / 2h
static double central_difference(const TensorFn& fn, const std::vector<Tensor>& inputs,
                                 const Tensor& input, int64_t i) {
  constexpr double kStep = 1e-5;
  double& x = element(input, i);
  const double x0 = x;
  const auto loss_at = [&](double value) {
    input.raise_version();
    x = value;
    return weighted_sum(fn(inputs));
  };
  const double up = loss_at(x0 + kStep), down = loss_at(x0 - kStep);
  input.raise_version();
  x = x0;
  return (up - down) / (2 * kStep);
}

std::string gradcheck(const std::string& name, const TensorFn& fn,
                      const std::vector<Tensor>& inputs, double tolerance) {
  backward(probe_loss(fn(inputs)));
  const NoGrad guard;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor &input = inputs[k], given = grad(input);
    if (!given.defined()) return cat(name, ": backward gave input ", k, " no gradient");
    for (int64_t i = 0; i < input.numel(); ++i) {
      const double want = central_difference(fn, inputs, input, i), got = element(given, i);
      // Not `> tolerance`: a NaN is wrong too.
      if (!(std::abs(want - got) <= tolerance * std::max(1.0, std::abs(want))))
        return cat(name, ": input ", k, " of shape ", input.shape(), ", element ", i,
                   ": backward gave ", got, ", the difference quotient is ", want);
    }
  }
  return "";
}

}  // namespace bellows
