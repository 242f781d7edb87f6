// What stands in for a vendor's library: the plain CPU kernel as one operation of the stream.
#pragma once
#include <functional>
#include "core/tensor/tensor.h"

namespace cuda_host {

// A tensor on the device, for an operation to come: where it lies, and nothing that keeps it alive.
class View {
 public:
  View(const bellows::Tensor& t);  // undefined: gives undefined tensors
  // A copy on the host, in the type that the CPU computes in.
  bellows::Tensor load() const;
  // The same, with the 10 bits of mantissa that TF32 has, where `tf32`.
  bellows::Tensor load_rounded(bool tf32) const;
  void store(const bellows::Tensor& t) const;  // rounds to its own type

 private:
  std::byte* bytes_ = nullptr;
  bellows::Shape shape_;
  bellows::Strides strides_;
  bellows::DType dtype_ = bellows::DType::f32;
};

// Puts it into the current stream; counted as kernel.vendor_calls. It runs with plain kernels.
void vendor_call(const char* name, std::function<void()> work);

// For f32 the KernelOptions in force ask for TF32; if so it is counted as matmul.tf32_calls.
bool count_tf32(const bellows::Tensor& t);

}  // namespace cuda_host
