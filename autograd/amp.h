// Automatic mixed precision. Which ops run in 16 bits is a visible word in each of them:
//
//   const auto [x, w, b] = amp::low(x_, w_, b_);   products: conv2d, linear, matmul
//   const Tensor x = amp::full(x_);                 losses, softmax, sums
//
// All others take what comes. Nothing happens outside of an Autocast.
#pragma once
#include <array>
#include "autograd/grad_scaler.h"
#include "autograd/record.h"
#include "core/config/visitor.h"

namespace bellows {

struct AmpOptions {
  enum class Precision { off, bf16, fp16 } dtype = Precision::off;
  GradScalerOptions scaler;  // of fp16; bf16 has the range of f32 and needs none

  DType low() const;  // f32: off
  bool scales() const { return dtype == Precision::fp16; }
};
void visit(Visitor& v, AmpOptions& o);

DType& autocast();  // of this thread; f32: off

class Autocast {
 public:
  explicit Autocast(DType low) : previous_(std::exchange(autocast(), low)) {}
  ~Autocast() { autocast() = previous_; }
  Autocast(Autocast&&) = delete;

 private:
  DType previous_;
};

namespace amp {

// t with history: in the low precision if it is f32 and there is one; in f32 if it is low. Of a
// leaf the copy is kept until the leaf is written; counted when it is made: amp.weight_casts.
Tensor to_low(const Tensor& t);
Tensor full(const Tensor& t);

// ---- for those who write leaves, and the copies along with them

// The copy, if it has the leaf's values; otherwise undefined.
Tensor copy_of(const Tensor& leaf);
// The same, if it was read since an update wrote it, and no closure wants it as it is.
Tensor copy_in_use(const Tensor& leaf);
// The leaf has been written, and, if it is defined, the copy.
void written(const Tensor& leaf, const Tensor& copy);
// What a captured forward read as the copy has the leaf's values again. Undefined: it read none.
void renew(const Tensor& leaf, const Tensor& copy);

void count_low_op();  // amp.low_ops

template <class... T> std::array<Tensor, sizeof...(T)> low(const T&... tensors) {
  if (autocast() == DType::f32) return {tensors...};
  count_low_op();
  return {to_low(tensors)...};
}

}  // namespace amp
}  // namespace bellows
