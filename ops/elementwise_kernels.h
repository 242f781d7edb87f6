// Kernels of the elementwise ops, for the device whose map_into() was included before this file:
// ops/base/map.h (CPU) or core/tensor/map.cuh (GPU). They are in an unnamed namespace, because the
// linker would merge functions of both devices that have the same name.
#pragma once
#include "ops/base/apply.h"
#include "ops/elementwise.h"

namespace bellows {

namespace {

// y = F(x...)
template <class F, size_t N> Tensor mapped(const Tensor& y, const Tensor* const (&x)[N]) {
  map_into(y, x, Apply<F>());
  return y;
}

template <class F> Tensor unary_kernel(const Tensor& x) { return mapped<F>(empty_like(x), {&x}); }
template <class F> Tensor unary_backward_kernel(const Tensor& dy, const Tensor& v) {
  return mapped<functors::Slope<F>>(empty_like(v), {&dy, &v});
}

// The result has the memory order of the operand that was not stretched.
template <class F> Tensor binary_kernel(const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return mapped<F>(empty_like(a), {&a, &b});
  const Shape shape = broadcast_shape(a.shape(), b.shape(), F::name);
  const Tensor a_ = broadcast_to(a, shape), b_ = broadcast_to(b, shape);
  return mapped<F>(empty_like(b.shape() == shape ? b : a_), {&a_, &b_});
}
// An operand that the formula does not read is replaced by one that it reads anyway.
template <class F> Tensor da_kernel(const Tensor& dy, const Tensor& a, const Tensor& b) {
  return mapped<functors::Da<F>>(empty_like(a), {&dy, F::da_reads_a ? &a : &dy, &b});
}
template <class F> Tensor db_kernel(const Tensor& dy, const Tensor& a, const Tensor& b) {
  return mapped<functors::Db<F>>(empty_like(b), {&dy, &a, F::db_reads_b ? &b : &a});
}

Tensor affine_kernel(const Tensor& x, double scale, double shift) {
  const Tensor y = empty_like(x);
  map_into(y, {&x}, ApplyAffine{scale, shift});
  return y;
}

// Calls fn(TypeList<F>()) for each functor F.
template <class... Fs, class Fn> void for_each(TypeList<Fs...>, const Fn& fn) {
  (fn(TypeList<Fs>()), ...);
}

bool add_kernels(Device device, const char* file = __builtin_FILE()) {
  for_each(functors::UnaryOps(), [&]<class F>(TypeList<F>) {
    kernels::unary<F>.on(device, unary_kernel<F>, file);
    kernels::unary_backward<F>.on(device, unary_backward_kernel<F>, file);
  });
  const auto add_binary = [&]<class F>(TypeList<F>) {
    kernels::binary<F>.on(device, binary_kernel<F>, file);
  };
  for_each(functors::BinaryOps(), add_binary);
  for_each(functors::SharedOps(), add_binary);
  for_each(functors::CurvedOps(), [&]<class F>(TypeList<F>) {
    kernels::binary_da<F>.on(device, da_kernel<F>, file);
    kernels::binary_db<F>.on(device, db_kernel<F>, file);
  });
  return kernels::affine.on(device, affine_kernel, file);
}

}  // namespace
}  // namespace bellows
