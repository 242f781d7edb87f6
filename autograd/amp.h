// Automatic mixed precision (autocast). Each op states in its own code which precision it needs:
//
//   const auto [x, w, b] = amp::low(x_, w_, b_);   products: conv2d, linear, matmul
//   const Tensor x = amp::full(x_);                 losses, softmax, sums
//
// All other ops compute in the dtype of their inputs. Outside an Autocast nothing is cast.
#pragma once
#include <array>
#include "autograd/grad_scaler.h"
#include "autograd/record.h"
#include "core/base/trace.h"

namespace bellows {

struct AmpOptions {
  enum class Precision { off, bf16, fp16 } dtype = Precision::off;
  GradScalerOptions scaler;  // fp16 only; bf16 has the range of f32 and needs no scaling

  DType low() const;  // dtype of products; f32 if amp is off
  bool scales() const { return dtype == Precision::fp16; }
};
void visit(Visitor& v, AmpOptions& o);

// This thread's dtype for products; f32 means autocast is off.
DType& autocast();

// Sets autocast() of this thread while it lives.
struct Autocast : Scoped<DType> {
  explicit Autocast(DType low) : Scoped(autocast(), low) {}
};

namespace amp {

// Casts f32 to autocast()'s dtype, with history. Returns t itself if it is undefined or not f32, or
// if autocast is off. The copy of a dense leaf is cached until the leaf is written; making one is
// counted in amp.weight_casts.
Tensor to_low(const Tensor& t);
// Casts bf16 and fp16 to f32, with history. Returns t itself in any other dtype, or if autocast is
// off.
Tensor full(const Tensor& t);

// ---- for code that writes leaves together with their cached low-precision copies

// Returns the leaf's cached copy if it is up to date, else an undefined tensor.
Tensor copy_of(const Tensor& leaf);
// Returns copy_of(leaf) if a product has read it since the last update and no closure has saved it,
// else an undefined tensor. An update may overwrite this copy.
Tensor copy_in_use(const Tensor& leaf);
// Marks the leaf as written: raises its version. A defined `copy` was written with the same values
// and becomes the leaf's cached copy.
void written(const Tensor& leaf, const Tensor& copy);
// Refreshes `copy`, which a captured graph reads, unless it is the leaf's up-to-date copy. No-op if
// `copy` is undefined.
void renew(const Tensor& leaf, const Tensor& copy);

// Applies to_low() to each tensor, for structured bindings. Counter under autocast: amp.low_ops.
template <class... T> std::array<Tensor, sizeof...(T)> low(const T&... tensors) {
  if (autocast() == DType::f32) return {tensors...};
  trace::count<"amp.low_ops">();
  return {to_low(tensors)...};
}

}  // namespace amp
}  // namespace bellows
