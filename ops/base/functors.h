// Formulas of the elementwise ops and their derivatives, each defined once. The kernels of every
// device call them, chains (ops/chain/program.h) are built from them, and the runtime compiler
// (ops/vendor/nvrtc.h) reads this very text. So it includes only <cmath> of the standard library.
#pragma once
#include "ops/base/maths.h"

namespace bellows {

template <class... Fs> struct TypeList {};
template <class... Lists> struct Joined;
template <class... Fs> struct Joined<TypeList<Fs...>> { using type = TypeList<Fs...>; };
template <class... Fs, class... Gs, class... Rest>
struct Joined<TypeList<Fs...>, TypeList<Gs...>, Rest...> : Joined<TypeList<Fs..., Gs...>, Rest...> {
};

// value(x) is the function; slope() is its derivative, from x, or from y = value(x) if `from_y` is
// set. Backward then saves y, which the next op saves as well.
namespace functors {

struct Unary {
  static constexpr int arity = 1, constants = 0;
  static constexpr bool from_y = false, positive = false;
  // Results have as few bits as the inputs, and slopes are -1, 0 or 1: nothing to round.
  static constexpr bool exact = false;
  static constexpr double keep_from_zero = 0;  // tests avoid |x| below this: a kink
};

// Propagates NaN: clamping it to 0 would hide a diverged run.
struct Relu : Unary {
  static constexpr const char *name = "relu", *math = "max(x, 0)";
  static constexpr bool from_y = true, exact = true;
  static constexpr double keep_from_zero = 0.05;
  template <class T> FORMULA static T value(T x) { return x < T(0) ? T(0) : x; }
  template <class T> FORMULA static T slope(T y) { return y <= T(0) ? T(0) : T(1); }
};

struct Gelu : Unary {
  static constexpr const char *name = "gelu", *math = "x * cdf(x) of the normal distribution";
  template <class T> FORMULA static T pdf(T x) { return gauss(x) * T(M_2_SQRTPI * M_SQRT1_2 / 2); }
  template <class T> FORMULA static T value(T x) { return x * normal_cdf(x); }
  template <class T> FORMULA static T slope(T x) { return std::fma(x, pdf(x), normal_cdf(x)); }
};

// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; 1 + tanh(u) is 2 sigmoid(2 u).
struct GeluTanh : Unary {
  static constexpr const char *name = "gelu_tanh",
                              *math = "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))";
  static constexpr double kLinear = 2 * M_2_SQRTPI * M_SQRT1_2, kCubic = 0.044715 * kLinear;
  template <class T> FORMULA static T gate(T x) {
    return sigmoid_of(x * std::fma(x * x, T(kCubic), T(kLinear)));
  }
  template <class T> FORMULA static T value(T x) { return x * gate(x); }
  template <class T> FORMULA static T slope(T x) {
    const T s = gate(x), dgate = s * (1 - s) * std::fma(x * x, T(3 * kCubic), T(kLinear));
    return std::fma(x, dgate, s);
  }
};

struct Tanh : Unary {
  static constexpr const char *name = "tanh", *math = "tanh(x)";
  static constexpr bool from_y = true;
  template <class T> FORMULA static T value(T x) { return tanh_of(x); }
  template <class T> FORMULA static T slope(T y) { return 1 - y * y; }
};

struct Sigmoid : Unary {
  static constexpr const char *name = "sigmoid", *math = "1 / (1 + exp(-x))";
  static constexpr bool from_y = true;
  template <class T> FORMULA static T value(T x) { return sigmoid_of(x); }
  template <class T> FORMULA static T slope(T y) { return y * (1 - y); }
};

struct Silu : Unary {
  static constexpr const char *name = "silu", *math = "x * sigmoid(x)";
  template <class T> FORMULA static T value(T x) { return x * Sigmoid::value(x); }
  template <class T> FORMULA static T slope(T x) {
    const T s = Sigmoid::value(x);
    return s + x * s * (1 - s);
  }
};

struct Exp : Unary {
  static constexpr const char *name = "exp", *math = "e^x";
  static constexpr bool from_y = true;
  template <class T> FORMULA static T value(T x) { return exp_of(x); }
  template <class T> FORMULA static T slope(T y) { return y; }
};

struct Log : Unary {
  static constexpr const char *name = "log", *math = "natural logarithm of x";
  static constexpr bool positive = true;
  template <class T> FORMULA static T value(T x) { return log_of(x); }
  template <class T> FORMULA static T slope(T x) { return 1 / x; }
};

struct Sqrt : Unary {
  static constexpr const char *name = "sqrt", *math = "square root of x";
  static constexpr bool from_y = true, positive = true;
  template <class T> FORMULA static T value(T x) { return std::sqrt(x); }
  template <class T> FORMULA static T slope(T y) { return 1 / (2 * y); }
};

struct Square : Unary {
  static constexpr const char *name = "square", *math = "x^2";
  template <class T> FORMULA static T value(T x) { return x * x; }
  template <class T> FORMULA static T slope(T x) { return 2 * x; }
};

struct Abs : Unary {
  static constexpr const char *name = "abs", *math = "|x|; slope 0 at 0";
  static constexpr bool exact = true;
  static constexpr double keep_from_zero = 0.05;
  template <class T> FORMULA static T value(T x) { return magnitude(x); }
  template <class T> FORMULA static T slope(T x) { return T((x > T(0)) - (x < T(0))); }
};

// da and db return dy times the derivative with respect to a and b. A linear op needs neither: its
// gradients are dy and dy * b_slope, and nothing is saved.
struct Binary {
  static constexpr int arity = 2, constants = 0b11;
  static constexpr bool linear = false, shared = false, positive = false, distinct = false;
  static constexpr bool exact = false;  // results have as few bits as the inputs: nothing to round
  static constexpr bool da_reads_a = true, db_reads_b = true;  // da and db always read the other
};

struct Add : Binary {
  static constexpr const char *name = "add", *math = "a + b, broadcast";
  static constexpr bool linear = true;
  static constexpr double b_slope = 1;
  template <class T> FORMULA static T value(T a, T b) { return a + b; }
};

struct Sub : Binary {
  static constexpr const char *name = "sub", *math = "a - b, broadcast";
  static constexpr bool linear = true;
  static constexpr double b_slope = -1;
  template <class T> FORMULA static T value(T a, T b) { return a - b; }
};

struct Mul : Binary {
  static constexpr const char *name = "mul", *math = "a * b, broadcast";
  static constexpr bool da_reads_a = false, db_reads_b = false;
  template <class T> FORMULA static T value(T a, T b) { return a * b; }
  template <class T> FORMULA static T da(T dy, T, T b) { return dy * b; }
  template <class T> FORMULA static T db(T dy, T a, T) { return dy * a; }
};

struct Div : Binary {
  static constexpr const char *name = "div", *math = "a / b, broadcast";
  static constexpr bool positive = true, da_reads_a = false;
  template <class T> FORMULA static T value(T a, T b) { return a / b; }
  template <class T> FORMULA static T da(T dy, T, T b) { return dy / b; }
  template <class T> FORMULA static T db(T dy, T a, T b) { return -dy * (a / b / b); }
};

// Each input gets half of dy at elements where a = b, as in PyTorch.
struct Maximum : Binary {
  static constexpr const char *name = "maximum", *math = "max(a, b), broadcast";
  static constexpr bool distinct = true, exact = true;
  template <class T> FORMULA static T value(T a, T b) { return a > b || a != a ? a : b; }
  template <class T> FORMULA static T da(T dy, T a, T b) { return dy * T((a > b) + (a >= b)) / 2; }
  template <class T> FORMULA static T db(T dy, T a, T b) { return dy * T((b > a) + (b >= a)) / 2; }
};

struct Minimum : Binary {
  static constexpr const char *name = "minimum", *math = "min(a, b), broadcast";
  static constexpr bool distinct = true, exact = true;
  template <class T> FORMULA static T value(T a, T b) { return a < b || a != a ? a : b; }
  template <class T> FORMULA static T da(T dy, T a, T b) { return dy * T((a < b) + (a <= b)) / 2; }
  template <class T> FORMULA static T db(T dy, T a, T b) { return dy * T((b < a) + (b <= a)) / 2; }
};

// Last(First(a, b)) in one step. `shared`: both gradients are dy times Last's slope, from y.
struct AddRelu : Binary {
  static constexpr const char *name = "add_relu", *math = "max(a + b, 0), broadcast";
  static constexpr bool shared = true;
  using First = Add;
  using Last = Relu;
  template <class T> FORMULA static T value(T a, T b) { return Last::value(First::value(a, b)); }
};

// scale and shift are scalars, not tensors.
struct Affine {
  static constexpr const char *name = "affine", *math = "x * scale + shift";
  static constexpr int arity = 1;
  template <class T> FORMULA static T value(T x, T scale, T shift) { return x * scale + shift; }
};

using UnaryOps = TypeList<Relu, Gelu, GeluTanh, Tanh, Sigmoid, Silu, Exp, Log, Sqrt, Square, Abs>;
using LinearOps = TypeList<Add, Sub>;
using CurvedOps = TypeList<Mul, Div, Maximum, Minimum>;
using BinaryOps = Joined<LinearOps, CurvedOps>::type;
using SharedOps = TypeList<AddRelu>;

// Backward of each functor, as functors that a chain may use.
template <class F> struct Slope {
  static constexpr const char *name = F::name, *mark = "'";
  static constexpr int arity = 2, constants = 0b1;
  static constexpr bool exact = F::exact;
  template <class T> FORMULA static T value(T dy, T v) { return dy * F::slope(v); }
};
template <class F> struct Da {
  static constexpr const char *name = F::name, *mark = "'a";
  static constexpr int arity = 3, constants = F::da_reads_a ? 0b110 : 0b100;
  static constexpr bool exact = false;
  template <class T> FORMULA static T value(T dy, T a, T b) { return F::da(dy, a, b); }
};
template <class F> struct Db {
  static constexpr const char *name = F::name, *mark = "'b";
  static constexpr int arity = 3, constants = F::db_reads_b ? 0b110 : 0b010;
  static constexpr bool exact = false;
  template <class T> FORMULA static T value(T dy, T a, T b) { return F::db(dy, a, b); }
};

template <template <class> class Part, class List> struct Each;
template <template <class> class Part, class... Fs> struct Each<Part, TypeList<Fs...>> {
  using type = TypeList<Part<Fs>...>;
};

// Operations allowed in a pointwise chain; a step refers to them by index.
using Steps = Joined<TypeList<Affine>, UnaryOps, BinaryOps, Each<Slope, UnaryOps>::type,
                     Each<Da, CurvedOps>::type, Each<Db, CurvedOps>::type>::type;

// Calls F with as many of the arguments as it takes. Affine takes x, scale and shift.
template <class F, class T> FORMULA T call(T a, T b, T c) {
  if constexpr (requires { F::value(a); }) {
    return F::value(a);
  } else if constexpr (requires { F::value(a, b); }) {
    return F::value(a, b);
  } else {
    return F::value(a, b, c);
  }
}

}  // namespace functors

}  // namespace bellows
