#include "core/tensor/map.cuh"
#include "ops/elementwise.h"

namespace bellows {

namespace {

template <class F> struct Value {
  template <class... A> __device__ auto operator()(A... x) const { return F::value(x...); }
};
struct Affine {
  double scale, shift;
  template <class A> __device__ A operator()(A x) const {
    return functors::Affine::value(x, A(scale), A(shift));
  }
};

template <size_t N, class Fn>
Tensor mapped(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  visit_stored(y.dtype(), [&]<class T>(T) { map_into<T>(y, x, fn); });
  return y;
}

template <class F> Tensor unary_cuda(const Tensor& x) {
  return mapped(empty_like(x), {&x}, Value<F>());
}
template <class F> Tensor unary_backward_cuda(const Tensor& dy, const Tensor& v) {
  return mapped(empty_like(v), {&dy, &v}, Value<functors::Slope<F>>());
}
Tensor affine_cuda(const Tensor& x, double scale, double shift) {
  return mapped(empty_like(x), {&x}, Affine{scale, shift});
}

// The result has the memory order of the operand that was not stretched.
template <class F> Tensor binary_cuda(const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shape(a.shape(), b.shape(), F::name);
  const Tensor a_ = broadcast_to(a, shape), b_ = broadcast_to(b, shape);
  const bool like_a = a.shape() == b.shape() || b.shape() != shape;
  return mapped(empty_like(like_a ? a_ : b), {&a_, &b_}, Value<F>());
}
template <class F> Tensor da_cuda(const Tensor& dy, const Tensor& a, const Tensor& b) {
  return mapped(empty_like(a), {&dy, &a, &b}, Value<functors::Da<F>>());
}
template <class F> Tensor db_cuda(const Tensor& dy, const Tensor& a, const Tensor& b) {
  return mapped(empty_like(b), {&dy, &a, &b}, Value<functors::Db<F>>());
}

template <class... Fs> bool define_unary(TypeList<Fs...>) {
  return ((kernels::unary<Fs>.on(Device::cuda, unary_cuda<Fs>) &&
           kernels::unary_backward<Fs>.on(Device::cuda, unary_backward_cuda<Fs>)) &&
          ...);
}
template <class F> bool define_binary() {
  if constexpr (!F::linear && !F::shared)
    kernels::binary_da<F>.on(Device::cuda, da_cuda<F>) &&
        kernels::binary_db<F>.on(Device::cuda, db_cuda<F>);
  return kernels::binary<F>.on(Device::cuda, binary_cuda<F>);
}
template <class... Fs> bool define_binaries(TypeList<Fs...>) {
  return (define_binary<Fs>() && ...);
}

const bool gpu = define_unary(functors::UnaryOps()) && define_binaries(functors::BinaryOps()) &&
                 define_binaries(functors::SharedOps()) &&
                 kernels::affine.on(Device::cuda, affine_cuda);

}  // namespace
}  // namespace bellows
