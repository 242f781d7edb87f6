// Elementwise ops. To add one, write its functor in ops/base/functors.h and add it to one of the
// lists there. Kernels for every device, tests, docs and, for a unary op, a layer follow. Only C++
// code that calls the op needs a named function below.
//
// All tensors are f64, f32, bf16 or f16, with any strides. y keeps the memory format of a dense x.
#pragma once
#include "autograd/record.h"
#include "core/tensor/kernel.h"
#include "ops/base/broadcast.h"
#include "ops/base/functors.h"
#include "ops/base/op.h"
#include "ops/reduce.h"

namespace bellows {

namespace kernels {
template <class F> inline constinit Kernel<Tensor(const Tensor& x)> unary{F::name};
// v: y if F::from_y, else x.
template <class F>
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& v)> unary_backward{F::name};
template <class F>
inline constinit Kernel<Tensor(const Tensor& a, const Tensor& b)> binary{F::name};
// Gradient of a, or of b, in the shape of dy, to which a and b are already broadcast.
template <class F>
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& a, const Tensor& b)> binary_da{
    F::name};
template <class F>
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& a, const Tensor& b)> binary_db{
    F::name};
inline constinit Kernel<Tensor(const Tensor& x, double scale, double shift)> affine{"affine"};
}  // namespace kernels

template <class F> Tensor unary(const Tensor& x) {
  const Tensor y = kernels::unary<F>(x);
  if (!will_record(x)) return y;
  return record(F::name, y, {x}, [v = Saved(F::from_y ? y : x)](const Tensor& dy) {
    return Grads{kernels::unary_backward<F>(dy, v())};
  });
}

template <class F> Tensor record_linear(const Tensor& y, const Tensor& a, const Tensor& b) {
  return record(F::name, y, {a, b},
                [a_shape = a.shape(), b_shape = b.shape(), for_a = needs_grad(a),
                 for_b = needs_grad(b)](const Tensor& dy) {
                  Grads grads(2);
                  if (for_a) grads[0] = kernels::sum_to(dy, a_shape);
                  if (for_b) grads[1] = kernels::sum_to(dy, b_shape);
                  if (for_b && F::b_slope != 1) grads[1] = kernels::affine(grads[1], F::b_slope, 0);
                  return grads;
                });
}

template <class F> Tensor binary(const Tensor& a, const Tensor& b) {
  CHECK(a.dtype() == b.dtype(), F::name, ": a is ", a.dtype(), " and b is ", b.dtype());
  const Tensor y = kernels::binary<F>(a, b);
  if (!will_record(a, b)) return y;
  if constexpr (F::linear) {
    return record_linear<F>(y, a, b);
  } else if constexpr (F::shared) {
    return record(F::name, y, {a, b},
                  [y = Saved(y), a_shape = a.shape(), b_shape = b.shape(), for_a = needs_grad(a),
                   for_b = needs_grad(b)](const Tensor& dy) {
                    const Tensor g = kernels::unary_backward<typename F::Last>(dy, y());
                    return Grads{for_a ? kernels::sum_to(g, a_shape) : Tensor(),
                                 for_b ? kernels::sum_to(g, b_shape) : Tensor()};
                  });
  } else {
    return record(F::name, y, {a, b},
                  [a = Saved(a), b = Saved(b), for_a = needs_grad(a),
                   for_b = needs_grad(b)](const Tensor& dy) {
                    const Tensor a_ = broadcast_to(a(), dy.shape()),
                                 b_ = broadcast_to(b(), dy.shape());
                    Grads grads(2);
                    if (for_a)
                      grads[0] = kernels::sum_to(kernels::binary_da<F>(dy, a_, b_), a().shape());
                    if (for_b)
                      grads[1] = kernels::sum_to(kernels::binary_db<F>(dy, a_, b_), b().shape());
                    return grads;
                  });
  }
}

inline Tensor relu(const Tensor& x) { return unary<functors::Relu>(x); }
inline Tensor gelu(const Tensor& x) { return unary<functors::Gelu>(x); }
inline Tensor gelu_tanh(const Tensor& x) { return unary<functors::GeluTanh>(x); }
inline Tensor tanh(const Tensor& x) { return unary<functors::Tanh>(x); }
inline Tensor exp(const Tensor& x) { return unary<functors::Exp>(x); }
inline Tensor log(const Tensor& x) { return unary<functors::Log>(x); }
inline Tensor sqrt(const Tensor& x) { return unary<functors::Sqrt>(x); }
inline Tensor square(const Tensor& x) { return unary<functors::Square>(x); }
inline Tensor abs(const Tensor& x) { return unary<functors::Abs>(x); }

// These broadcast like NumPy; gradients of broadcast operands are summed back to their shapes. Both
// operands have one dtype. Throws (exit 2) if shapes or dtypes do not fit.
inline Tensor add(const Tensor& a, const Tensor& b) { return binary<functors::Add>(a, b); }
inline Tensor sub(const Tensor& a, const Tensor& b) { return binary<functors::Sub>(a, b); }
inline Tensor mul(const Tensor& a, const Tensor& b) { return binary<functors::Mul>(a, b); }
inline Tensor div(const Tensor& a, const Tensor& b) { return binary<functors::Div>(a, b); }
inline Tensor maximum(const Tensor& a, const Tensor& b) { return binary<functors::Maximum>(a, b); }
inline Tensor minimum(const Tensor& a, const Tensor& b) { return binary<functors::Minimum>(a, b); }

// relu(a + b). fused: the sum is never written; counted as fuse.add_act.
Tensor add_relu(const Tensor& a, const Tensor& b, Impl impl);

// x * scale + shift
Tensor affine(const Tensor& x, double scale, double shift);
inline Tensor add(const Tensor& x, double shift) { return affine(x, 1, shift); }
inline Tensor mul(const Tensor& x, double scale) { return affine(x, scale, 0); }
inline Tensor neg(const Tensor& x) { return affine(x, -1, 0); }

}  // namespace bellows
