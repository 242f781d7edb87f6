// Elementwise ops. To add one, write its functor here and put it in UnaryOps or BinaryOps, and give
// it a name below; kernels for every device, tests and docs follow.
//
// f32 or f64, on a device also bf16 and f16; any strides; y keeps the memory format of a dense x.
#pragma once
#include <cmath>
#include "autograd/record.h"
#include "core/kernel.h"
#include "ops/broadcast.h"
#include "ops/reduce.h"

namespace bellows {

template <class... Fs> struct TypeList {};

// value: the function; slope: its derivative, from x, or from y = value(x) where `from_y` says so:
// then backward keeps y, which the next op keeps as well.
namespace functors {

struct Unary {
  static constexpr bool from_y = false, positive = false;
  static constexpr double keep_from_zero = 0;  // where a kink keeps tests away
};

// NaN stays NaN in relu, or a broken run would look sound.
struct Relu : Unary {
  static constexpr const char *name = "relu", *math = "max(x, 0)";
  static constexpr bool from_y = true;
  static constexpr double keep_from_zero = 0.05;
  template <class T> HD static T value(T x) { return x < T(0) ? T(0) : x; }
  template <class T> HD static T slope(T y) { return y <= T(0) ? T(0) : T(1); }
};

struct Gelu : Unary {
  static constexpr const char *name = "gelu", *math = "x * cdf(x) of the normal distribution";
  template <class T> HD static T cdf(T x) { return (1 + std::erf(x * T(M_SQRT1_2))) / 2; }
  template <class T> HD static T pdf(T x) { return std::exp(-x * x / 2) / std::sqrt(T(2 * M_PI)); }
  template <class T> HD static T value(T x) { return x * cdf(x); }
  template <class T> HD static T slope(T x) { return cdf(x) + x * pdf(x); }
};

struct Tanh : Unary {
  static constexpr const char *name = "tanh", *math = "tanh(x)";
  static constexpr bool from_y = true;
  template <class T> HD static T value(T x) { return std::tanh(x); }
  template <class T> HD static T slope(T y) { return 1 - y * y; }
};

struct Sigmoid : Unary {
  static constexpr const char *name = "sigmoid", *math = "1 / (1 + exp(-x))";
  static constexpr bool from_y = true;
  template <class T> HD static T value(T x) { return 1 / (1 + std::exp(-x)); }
  template <class T> HD static T slope(T y) { return y * (1 - y); }
};

struct Silu : Unary {
  static constexpr const char *name = "silu", *math = "x * sigmoid(x)";
  template <class T> HD static T value(T x) { return x * Sigmoid::value(x); }
  template <class T> HD static T slope(T x) {
    const T s = Sigmoid::value(x);
    return s + x * s * (1 - s);
  }
};

struct Exp : Unary {
  static constexpr const char *name = "exp", *math = "e^x";
  static constexpr bool from_y = true;
  template <class T> HD static T value(T x) { return std::exp(x); }
  template <class T> HD static T slope(T y) { return y; }
};

struct Log : Unary {
  static constexpr const char *name = "log", *math = "natural logarithm of x";
  static constexpr bool positive = true;
  template <class T> HD static T value(T x) { return std::log(x); }
  template <class T> HD static T slope(T x) { return 1 / x; }
};

struct Sqrt : Unary {
  static constexpr const char *name = "sqrt", *math = "square root of x";
  static constexpr bool from_y = true, positive = true;
  template <class T> HD static T value(T x) { return std::sqrt(x); }
  template <class T> HD static T slope(T y) { return 1 / (2 * y); }
};

struct Square : Unary {
  static constexpr const char *name = "square", *math = "x^2";
  template <class T> HD static T value(T x) { return x * x; }
  template <class T> HD static T slope(T x) { return 2 * x; }
};

struct Abs : Unary {
  static constexpr const char *name = "abs", *math = "|x|; slope 0 at 0";
  static constexpr double keep_from_zero = 0.05;
  template <class T> HD static T value(T x) { return x < T(0) ? -x : x; }
  template <class T> HD static T slope(T x) { return T((x > T(0)) - (x < T(0))); }
};

// da, db: dy times the derivatives, which need a and b. Of a linear op they are dy, and dy times
// `b_slope`, and nothing is saved.
struct Binary {
  static constexpr bool linear = false, positive = false, distinct = false;
};

struct Add : Binary {
  static constexpr const char *name = "add", *math = "a + b, broadcast";
  static constexpr bool linear = true;
  static constexpr double b_slope = 1;
  template <class T> HD static T value(T a, T b) { return a + b; }
};

struct Sub : Binary {
  static constexpr const char *name = "sub", *math = "a - b, broadcast";
  static constexpr bool linear = true;
  static constexpr double b_slope = -1;
  template <class T> HD static T value(T a, T b) { return a - b; }
};

struct Mul : Binary {
  static constexpr const char *name = "mul", *math = "a * b, broadcast";
  template <class T> HD static T value(T a, T b) { return a * b; }
  template <class T> HD static T da(T dy, T, T b) { return dy * b; }
  template <class T> HD static T db(T dy, T a, T) { return dy * a; }
};

struct Div : Binary {
  static constexpr const char *name = "div", *math = "a / b, broadcast";
  static constexpr bool positive = true;
  template <class T> HD static T value(T a, T b) { return a / b; }
  template <class T> HD static T da(T dy, T, T b) { return dy / b; }
  template <class T> HD static T db(T dy, T a, T b) { return -dy * a / (b * b); }
};

// Where a = b, each gets half of dy.
struct Maximum : Binary {
  static constexpr const char *name = "maximum", *math = "max(a, b), broadcast";
  static constexpr bool distinct = true;
  template <class T> HD static T value(T a, T b) { return a > b || a != a ? a : b; }
  template <class T> HD static T da(T dy, T a, T b) { return dy * T((a > b) + (a >= b)) / 2; }
  template <class T> HD static T db(T dy, T a, T b) { return dy * T((b > a) + (b >= a)) / 2; }
};

struct Minimum : Binary {
  static constexpr const char *name = "minimum", *math = "min(a, b), broadcast";
  static constexpr bool distinct = true;
  template <class T> HD static T value(T a, T b) { return a < b || a != a ? a : b; }
  template <class T> HD static T da(T dy, T a, T b) { return dy * T((a < b) + (a <= b)) / 2; }
  template <class T> HD static T db(T dy, T a, T b) { return dy * T((b < a) + (b <= a)) / 2; }
};

using UnaryOps = TypeList<Relu, Gelu, Tanh, Sigmoid, Silu, Exp, Log, Sqrt, Square, Abs>;
using BinaryOps = TypeList<Add, Sub, Mul, Div, Maximum, Minimum>;

}  // namespace functors

namespace kernels {
template <class F> inline constinit Kernel<Tensor(const Tensor& x)> unary{F::name};
// v: x, or y where F::from_y.
template <class F>
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& v)> unary_backward{F::name};
template <class F>
inline constinit Kernel<Tensor(const Tensor& a, const Tensor& b)> binary{F::name};
// The gradient of a, or of b, in the shape of dy. a and b have been broadcast to it.
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
  return record(F::name, y, {a, b}, [a_shape = a.shape(), b_shape = b.shape()](const Tensor& dy) {
    const Tensor db = kernels::sum_to(dy, b_shape);
    return Grads{kernels::sum_to(dy, a_shape),
                 F::b_slope == 1 ? db : kernels::affine(db, F::b_slope, 0)};
  });
}

template <class F> Tensor binary(const Tensor& a, const Tensor& b) {
  CHECK(a.dtype() == b.dtype(), F::name, ": a is ", a.dtype(), " and b is ", b.dtype());
  const Tensor y = kernels::binary<F>(a, b);
  if (!will_record(a, b)) return y;
  if constexpr (F::linear) {
    return record_linear<F>(y, a, b);
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
inline Tensor tanh(const Tensor& x) { return unary<functors::Tanh>(x); }
inline Tensor sigmoid(const Tensor& x) { return unary<functors::Sigmoid>(x); }
inline Tensor silu(const Tensor& x) { return unary<functors::Silu>(x); }
inline Tensor exp(const Tensor& x) { return unary<functors::Exp>(x); }
inline Tensor log(const Tensor& x) { return unary<functors::Log>(x); }
inline Tensor sqrt(const Tensor& x) { return unary<functors::Sqrt>(x); }
inline Tensor square(const Tensor& x) { return unary<functors::Square>(x); }
inline Tensor abs(const Tensor& x) { return unary<functors::Abs>(x); }

// NumPy's broadcasting; the gradient of what was stretched is summed back. One dtype.
inline Tensor add(const Tensor& a, const Tensor& b) { return binary<functors::Add>(a, b); }
inline Tensor sub(const Tensor& a, const Tensor& b) { return binary<functors::Sub>(a, b); }
inline Tensor mul(const Tensor& a, const Tensor& b) { return binary<functors::Mul>(a, b); }
inline Tensor div(const Tensor& a, const Tensor& b) { return binary<functors::Div>(a, b); }
inline Tensor maximum(const Tensor& a, const Tensor& b) { return binary<functors::Maximum>(a, b); }
inline Tensor minimum(const Tensor& a, const Tensor& b) { return binary<functors::Minimum>(a, b); }

// x * scale + shift
Tensor affine(const Tensor& x, double scale, double shift);
inline Tensor add(const Tensor& x, double shift) { return affine(x, 1, shift); }
inline Tensor mul(const Tensor& x, double scale) { return affine(x, scale, 0); }
inline Tensor neg(const Tensor& x) { return affine(x, -1, 0); }

}  // namespace bellows
