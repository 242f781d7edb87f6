// Reductions, softmax, the loss, and dropout, whose backward generates the mask again.
#include <memory>
#include "bench/gpu/bandwidth.h"
#include "core/tensor/foreach.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/reduce.h"
#include "ops/softmax.h"

namespace bellows {

static Task sum_to_shape(const Setup& s, int axis) {
  const Tensor x = s.normal(s.rows(1024));
  Shape kept = x.shape();
  kept[axis] = 1;
  return work({x}, [=] { return Outputs{kernels::sum(x, kept, 1)}; });
}
static Task sum_all(const Setup& s) {
  const Tensor x = s.normal({s.n});
  return work({x}, [=] { return Outputs{kernels::sum(x, {1}, 1)}; });
}
static Task max_in_rows(const Setup& s) {
  const Tensor x = s.normal(s.rows(1024));
  const Shape kept{x.dim(0), 1};
  return work({x}, [=] {
    const kernels::Max max = kernels::max(x, kept);
    return Outputs{max.y, max.index};
  });
}
static Task argmax_in_rows(const Setup& s) {
  const Tensor x = s.normal(s.rows(1024));
  return work({x}, [=] { return Outputs{kernels::argmax(x, -1)}; });
}

template <class K> static Task rows_of(const Setup& s, const K& kernel) {
  const Tensor x = s.normal(s.rows(1024));
  return work({x}, [=, &kernel] { return Outputs{kernel(x, 1)}; });
}
template <class K> static Task rows_backward(const Setup& s, const K& kernel) {
  const Tensor dy = s.normal(s.rows(1024)), y = s.normal(s.rows(1024));
  return work({dy, y}, [=, &kernel] { return Outputs{kernel(dy, y, 1)}; });
}

static Task loss(const Setup& s) {
  const Tensor x = s.normal(s.rows(1000)), labels = s.indices({x.dim(0)}, 1000);
  return work({x, labels}, [=] {
    const kernels::CrossEntropy y = kernels::cross_entropy(x, labels, 0);
    return Outputs{y.loss, y.lse};
  });
}
static Task loss_backward(const Setup& s) {
  const Tensor x = s.normal(s.rows(1000)), labels = s.indices({x.dim(0)}, 1000);
  const kernels::CrossEntropy y = kernels::cross_entropy(x, labels, 0);
  const Tensor dy = full(y.loss.shape(), 1, y.loss);
  return work({x, labels, y.lse},
              [=] { return Outputs{kernels::cross_entropy_backward(dy, x, labels, y.lse, 0)}; });
}

static Task dropped(const Setup& s) {
  const Tensor x = s.normal({s.n});
  const auto state = std::make_shared<DeviceStepState>(s.device);
  return work({x}, [=] { return Outputs{kernels::dropout(x, 0.5, {}, state->get()).y}; });
}
static Task dropped_backward(const Setup& s) {
  const Tensor dy = s.normal({s.n});
  const DeviceStepState state(s.device);
  const Tensor step = kernels::dropout(dy, 0.5, {}, state.get()).step;
  return work({dy}, [=] { return Outputs{kernels::dropout_backward(dy, 0.5, {}, step, {})}; });
}

static const AddCases cases{
    {"sum, rows of 1024", "x; y", [](const Setup& s) { return sum_to_shape(s, 1); }},
    {"sum, 1024 columns", "x; y", [](const Setup& s) { return sum_to_shape(s, 0); }},
    {"sum, all", "x;", sum_all},
    {"max, rows of 1024", "x; y, index", max_in_rows},
    {"argmax, rows of 1024", "x; y", argmax_in_rows},
    {"softmax, rows of 1024", "x; y", [](const Setup& s) { return rows_of(s, kernels::softmax); }},
    {"softmax backward", "dy, y; dx",
     [](const Setup& s) { return rows_backward(s, kernels::softmax_backward); }},
    {"log_softmax, rows of 1024", "x; y",
     [](const Setup& s) { return rows_of(s, kernels::log_softmax); }},
    {"log_softmax backward", "dy, y; dx",
     [](const Setup& s) { return rows_backward(s, kernels::log_softmax_backward); }},
    {"cross_entropy, 1000 classes", "x, labels; lse", loss},
    {"cross_entropy backward", "x, labels, lse; dx", loss_backward},
    {"dropout", "x; y", dropped},
    {"dropout backward", "dy; dx", dropped_backward},
};

}  // namespace bellows
