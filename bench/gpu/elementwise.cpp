// Elementwise ops: y = f(x), and dx from dy and the tensor saved by forward.
#include "ops/elementwise.h"
#include "bench/gpu/bandwidth.h"

namespace bellows {

template <class F> static Task unary_of(const Setup& s) {
  const Tensor x = s.normal({s.n});
  return work({x}, [=] { return Outputs{kernels::unary<F>(x)}; });
}
template <class F> static Task unary_backward_of(const Setup& s) {
  const Tensor dy = s.normal({s.n}), v = s.normal({s.n});
  return work({dy, v}, [=] { return Outputs{kernels::unary_backward<F>(dy, v)}; });
}
template <class F> static Task binary_of(const Setup& s) {
  const Tensor a = s.normal({s.n}), b = s.normal({s.n});
  return work({a, b}, [=] { return Outputs{kernels::binary<F>(a, b)}; });
}
static Task bias(const Setup& s) {
  const Tensor x = s.normal(s.rows(1024)), b = s.normal({1024});
  return work({x, b}, [=] { return Outputs{kernels::binary<functors::Add>(x, b)}; });
}
static Task affine_of(const Setup& s) {
  const Tensor x = s.normal({s.n});
  return work({x}, [=] { return Outputs{kernels::affine(x, 1.5, 0.5)}; });
}

static const AddCases cases{
    {"relu", "x; y", unary_of<functors::Relu>},
    {"relu backward", "dy, y; dx", unary_backward_of<functors::Relu>},
    {"gelu", "x; y", unary_of<functors::Gelu>},
    {"gelu backward", "dy, x; dx", unary_backward_of<functors::Gelu>},
    {"sigmoid", "x; y", unary_of<functors::Sigmoid>},
    {"tanh", "x; y", unary_of<functors::Tanh>},
    {"add", "a, b; y", binary_of<functors::Add>},
    {"mul", "a, b; y", binary_of<functors::Mul>},
    {"add a row to each of 1024", "x; y", bias},
    {"affine", "x; y", affine_of},
};

}  // namespace bellows
