#include "ops/softmax.h"
#include <Eigen/Core>
#include "autograd/amp.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/map.h"
#include "ops/base/op.h"

namespace bellows {

static Tensor recorded(const Kernel<Tensor(const Tensor&)>& kernel,
                       const Kernel<Tensor(const Tensor&, const Tensor&)>& backward,
                       const Tensor& x_) {
  const Tensor x = amp::full(x_);
  CHECK(x.rank() > 0, kernel.name(), ": x ", x.shape(), " has no axis");
  const Tensor y = kernel(x);
  if (!will_record(x)) return y;
  return record(kernel.name(), y, {x},
                [y = Saved(y), &backward](const Tensor& dy) { return Grads{backward(dy, y())}; });
}

Tensor softmax(const Tensor& x) { return recorded(kernels::softmax, kernels::softmax_backward, x); }
Tensor log_softmax(const Tensor& x) {
  return recorded(kernels::log_softmax, kernels::log_softmax_backward, x);
}

static AddOp spec(const char* name, const char* math, Tensor (*op)(const Tensor&)) {
  return AddOp({.name = name,
                .math = math,
                .cases = {{{1, 1}}, {{5, 10}}, {{2, 9, 3, 4}}},
                .run = [op](const Inputs& in) { return op(in[0]); },
                .rejects = {{Shape()}},
                .large = {{{300, 100}}, {{7, 5000}}, {{3, 700, 33}}}});
}
static const AddOp specs[] = {
    spec("softmax", "exp(x) / sum(exp(x)) along the last axis", softmax),
    spec("log_softmax", "x - log(sum(exp(x))) along the last axis", log_softmax),
};

// ---- CPU

namespace {

template <class T> using Line = Eigen::Array<T, Eigen::Dynamic, 1>;

// Calls fn(y, {x...}) for each line of row-major tensors; fn may change x. Copies the lines to
// Eigen arrays: the same bits at any address.
template <class T, size_t N, class Fn>
void for_lines(const Tensor& y, const std::array<const Tensor*, N>& x, const Fn& fn) {
  const int64_t n = y.dim(-1);
  if (y.numel() == 0) return;
  parallel_for(y.numel() / n, std::max<int64_t>(16384 / n, 1), [&](int64_t b, int64_t e) {
    std::array<Line<T>, N> in;
    Line<T> out(n);
    for (int64_t line = b; line < e; ++line) {
      const auto at = [&](const Tensor& t) {
        return Eigen::Map<Line<T>>(t.ptr<T>() + line * n, n);
      };
      for (size_t k = 0; k < N; ++k) in[k] = at(*x[k]);
      fn(out, in);
      at(y) = out;
    }
  });
}

// The op of one line, and its dx from dy and y; both may write to their arguments.
struct Softmax {
  template <class T> static void value(Line<T>& y, std::array<Line<T>, 1>& x) {
    y = x[0] - x[0].maxCoeff();
    exp_in_place(y.data(), y.size());
    y /= y.sum();
  }
  // dx = y * (dy - sum(dy * y))
  template <class T> static void slope(Line<T>& dx, std::array<Line<T>, 2>& in) {
    const auto& [dy, y] = in;
    dx = y * (dy - (dy * y).sum());
  }
};
struct LogSoftmax {
  template <class T> static void value(Line<T>& y, std::array<Line<T>, 1>& x) {
    y = x[0] - x[0].maxCoeff();
    x[0] = y;
    exp_in_place(x[0].data(), y.size());
    y -= std::log(x[0].sum());
  }
  // dx = dy - exp(y) * sum(dy)
  template <class T> static void slope(Line<T>& dx, std::array<Line<T>, 2>& in) {
    auto& [dy, y] = in;
    exp_in_place(y.data(), y.size());
    dx = dy - y * dy.sum();
  }
};

template <class F> Tensor forward_cpu(const Tensor& x) {
  const Tensor dense = contiguous(x), y = empty(x.shape(), x);
  visit_float(x.dtype(), [&]<class T>(T) {
    for_lines<T, 1>(y, {&dense}, [](auto& out, auto& in) { F::template value<T>(out, in); });
  });
  return y;
}
template <class F> Tensor backward_cpu(const Tensor& dy, const Tensor& y) {
  const Tensor dense = contiguous(dy), dx = empty(y.shape(), y);
  visit_float(y.dtype(), [&]<class T>(T) {
    for_lines<T, 2>(dx, {&dense, &y}, [](auto& out, auto& in) { F::template slope<T>(out, in); });
  });
  return dx;
}

const bool cpu = kernels::softmax.on(Device::cpu, forward_cpu<Softmax>) &&
                 kernels::softmax_backward.on(Device::cpu, backward_cpu<Softmax>) &&
                 kernels::log_softmax.on(Device::cpu, forward_cpu<LogSoftmax>) &&
                 kernels::log_softmax_backward.on(Device::cpu, backward_cpu<LogSoftmax>);

}  // namespace
}  // namespace bellows
