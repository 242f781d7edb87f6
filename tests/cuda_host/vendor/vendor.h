// Stand-in for a vendor's library: the plain CPU kernel as one operation of the stream.
#pragma once
#include <functional>
#include "core/tensor/tensor.h"

namespace cuda_host {

// Non-owning view of a device tensor, for an operation that runs later.
class View {
 public:
  View(const bellows::Tensor& t);  // if undefined, load() returns an undefined tensor
  // Returns a copy on the host, f64 for f64 and f32 for all other dtypes.
  bellows::Tensor load() const;
  // Like load(); if `tf32`, rounded to the 10 bits of mantissa that TF32 has.
  bellows::Tensor load_rounded(bool tf32) const;
  void store(const bellows::Tensor& t) const;  // rounds to the view's dtype

 private:
  std::byte* bytes_ = nullptr;
  bellows::Shape shape_;
  bellows::Strides strides_;
  bellows::DType dtype_ = bellows::DType::f32;
};

// Enqueues `work` on the current stream and counts it as kernel.vendor_calls. It runs with plain
// kernels.
void vendor_call(const char* name, std::function<void()> work);

// Returns whether t is f32 and the current KernelOptions request TF32; if so, counts it as
// matmul.tf32_calls.
bool count_tf32(const bellows::Tensor& t);

}  // namespace cuda_host
