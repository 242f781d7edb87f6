#include "ops/elementwise.h"
#include "core/base/trace.h"
#include "ops/base/map.h"

namespace bellows {

Tensor affine(const Tensor& x, double scale, double shift) {
  return record("affine", kernels::affine(x, scale, shift), {x}, [scale](const Tensor& dy) {
    return Grads{scale == 1 ? dy : kernels::affine(dy, scale, 0)};
  });
}

template <class F> static Tensor composed(const Tensor& a, const Tensor& b) {
  return unary<typename F::Last>(binary<typename F::First>(a, b));
}

Tensor add_relu(const Tensor& a, const Tensor& b, Impl impl) {
  using functors::AddRelu;
  if (impl == Impl::composed) return composed<AddRelu>(a, b);
  static trace::Counter& fused = trace::counter("fuse.add_act");
  fused.add();
  return binary<AddRelu>(a, b);
}

static const AddOp affine_spec({.name = functors::Affine::name,
                                .math = functors::Affine::math,
                                .cases = {{{1}}, {{7}}, {{2, 3, 4, 5}}},
                                .run = [](const Inputs& in) { return affine(in[0], -1.5, 2); },
                                .elementwise = true});

// ---- CPU
//
// always_inline, because GCC judges by size: a formula that stays a call is not vectorized. Gelu's
// slope in 16 bits then takes ten times as long.

// Rounds to T, unless F needs no rounding.
template <class F, class T> [[gnu::always_inline]] static inline T stored(Acc<T> value) {
  if constexpr (F::exact && std::is_same_v<T, Bf16>)
    return Bf16::exact(value);
  else
    return T(value);
}

template <class F> static Tensor unary_cpu(const Tensor& x) {
  const Tensor y = empty_like(x);
  visit_stored(x.dtype(), [&]<class T>(T) {
    map_into<T>(
        y, {&x}, [](Acc<T> a) __attribute__((always_inline)) { return stored<F, T>(F::value(a)); });
  });
  return y;
}

template <class F> static Tensor unary_backward_cpu(const Tensor& dy, const Tensor& v) {
  const Tensor dx = empty_like(v);
  visit_stored(v.dtype(), [&]<class T>(T) {
    map_into<T>(
        dx, {&dy, &v}, [](Acc<T> g, Acc<T> a) __attribute__((always_inline)) {
          return stored<F, T>(functors::Slope<F>::value(g, a));
        });
  });
  return dx;
}

static Tensor affine_cpu(const Tensor& x, double scale, double shift) {
  const Tensor y = empty_like(x);
  visit_stored(x.dtype(), [&]<class T>(T) {
    map_into<T>(y, {&x}, [s = Acc<T>(scale), t = Acc<T>(shift)](Acc<T> a) {
      return functors::Affine::value(a, s, t);
    });
  });
  return y;
}

template <class F> static Tensor binary_into(const Tensor& y, const Tensor& a, const Tensor& b) {
  visit_stored(a.dtype(), [&]<class T>(T) {
    map_into<T>(y, {&a, &b}, [](Acc<T> p, Acc<T> q) { return stored<F, T>(F::value(p, q)); });
  });
  return y;
}

// The result has the memory order of the operand that was not stretched.
template <class F> static Tensor binary_cpu(const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return binary_into<F>(empty_like(a), a, b);
  const Shape shape = broadcast_shape(a.shape(), b.shape(), F::name);
  const Tensor a_ = broadcast_to(a, shape), b_ = broadcast_to(b, shape);
  return binary_into<F>(empty_like(b.shape() == shape ? b : a_), a_, b_);
}

template <class F> static Tensor binary_da_cpu(const Tensor& dy, const Tensor& a, const Tensor& b) {
  const Tensor da = empty_like(a);
  visit_stored(a.dtype(), [&]<class T>(T) {
    map_into<T>(da, {&dy, &a, &b}, [](Acc<T> g, Acc<T> p, Acc<T> q) { return F::da(g, p, q); });
  });
  return da;
}

template <class F> static Tensor binary_db_cpu(const Tensor& dy, const Tensor& a, const Tensor& b) {
  const Tensor db = empty_like(b);
  visit_stored(b.dtype(), [&]<class T>(T) {
    map_into<T>(db, {&dy, &a, &b}, [](Acc<T> g, Acc<T> p, Acc<T> q) { return F::db(g, p, q); });
  });
  return db;
}

// ---- registration of every functor as an op

template <class F> static bool define_unary() {
  const AddOp spec({.name = F::name,
                    .math = F::math,
                    .cases = {{{1}}, {{7}}, {{2, 3, 4, 5}}},
                    .run = [](const Inputs& in) { return unary<F>(in[0]); },
                    .large = {{{3, 20000}}},
                    .positive = F::positive,
                    .keep_from_zero = F::keep_from_zero,
                    .elementwise = true});
  return kernels::unary<F>.on(Device::cpu, unary_cpu<F>) &&
         kernels::unary_backward<F>.on(Device::cpu, unary_backward_cpu<F>);
}

template <class F> static OpFn composed_twin() {
  if constexpr (F::shared)
    return [](const Inputs& in) { return composed<F>(in[0], in[1]); };
  else
    return nullptr;
}

template <class F> static bool define_binary() {
  const AddOp spec({.name = F::name,
                    .math = F::math,
                    .cases = {{{7}, {7}},
                              {{2, 3, 4, 5}, {2, 3, 4, 5}},
                              {{2, 3, 4, 5}, {3, 1, 1}},
                              {{4}, {3, 1}},
                              {{2, 1, 3}, {}}},
                    .run = [](const Inputs& in) { return binary<F>(in[0], in[1]); },
                    .rejects = {{{2, 3}, {2}}, {{4, 1, 3}, {2, 5, 3}}},
                    .large = {{{3, 20000}, {20000}}},
                    .composed = composed_twin<F>(),
                    .positive = F::positive,
                    .distinct = F::distinct,
                    .elementwise = true});
  if constexpr (!F::linear && !F::shared)
    kernels::binary_da<F>.on(Device::cpu, binary_da_cpu<F>) &&
        kernels::binary_db<F>.on(Device::cpu, binary_db_cpu<F>);
  return kernels::binary<F>.on(Device::cpu, binary_cpu<F>);
}

template <class... Fs> static bool define_all(TypeList<Fs...>, const auto& define) {
  return (define.template operator()<Fs>() && ...);
}
static const bool cpu =
    define_all(functors::UnaryOps{}, []<class F> { return define_unary<F>(); }) &&
    define_all(functors::BinaryOps{}, []<class F> { return define_binary<F>(); }) &&
    define_all(functors::SharedOps{}, []<class F> { return define_binary<F>(); }) &&
    kernels::affine.on(Device::cpu, affine_cpu);

}  // namespace bellows
