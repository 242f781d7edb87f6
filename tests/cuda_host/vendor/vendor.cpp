#include "tests/cuda_host/vendor/vendor.h"
#include <omp.h>
#include <bit>
#include <cmath>
#include "core/base/trace.h"
#include "core/device/cuda.h"
#include "core/device/kernel_options.h"
#include "core/tensor/walk.h"
#include "tests/cuda_host/runtime.h"

namespace cuda_host {

using namespace bellows;

namespace {

template <class T> using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls fn(element of the view, element of the copy) for each pair.
template <class T, class Fn>
void for_each_pair(T* elements, const Strides& strides, const Tensor& copy, const Fn& fn) {
  if (copy.numel() == 0) return;
  const Walk<2> walk(copy.shape(), {&copy.strides(), &strides});
  Computed<T>* const out = copy.ptr<Computed<T>>();
  run_watched([&] {
    for (int64_t i = 0; i < copy.numel(); ++i) {
      const auto [to, from] = walk.at(i);
      fn(elements[from], out[to]);
    }
  });
}

// Rounds to 10 bits of mantissa, ties away from zero.
float tf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000) & ~0x1fffu);
}

// Plain kernels give the same bits on one thread, and TSan cannot follow OpenMP's threads here.
struct SingleThreadScope {
  SingleThreadScope() { omp_set_num_threads(1); }
  ~SingleThreadScope() { omp_set_num_threads(before); }
  SingleThreadScope(SingleThreadScope&&) = delete;
  const int before = omp_get_max_threads();
};

}  // namespace

View::View(const Tensor& t) {
  if (!t.defined()) return;
  bytes_ = t.bytes();
  shape_ = t.shape();
  strides_ = t.strides();
  dtype_ = t.dtype();
}

Tensor View::load() const {
  if (!bytes_) return {};
  const Tensor copy(shape_, dtype_ == DType::f64 ? DType::f64 : DType::f32);
  visit_dtype(dtype_, [&]<class T>(T) {
    for_each_pair(reinterpret_cast<T*>(bytes_), strides_, copy,
                  [](const T& element, auto& out) { out = Computed<T>(element); });
  });
  return copy;
}

Tensor View::load_rounded(bool to_tf32) const {
  const Tensor copy = load();
  if (to_tf32 && copy.defined())
    for (float& value : copy.data<float>()) value = tf32(value);
  return copy;
}

void View::store(const Tensor& t) const {
  visit_dtype(dtype_, [&]<class T>(T) {
    for_each_pair(reinterpret_cast<T*>(bytes_), strides_, t,
                  [](T& element, const auto& value) { element = T(value); });
  });
}

void vendor_call(const char* name, std::function<void()> work) {
  static trace::Counter& calls = trace::counter("kernel.vendor_calls");
  calls.add();
  api([&] {
    enqueue(
        cuda::stream(), [name] { return name; },
        [work = std::move(work)] {
          const SingleThreadScope alone;
          const Kernels plain({});
          work();
        });
  });
}

bool count_tf32(const Tensor& t) {
  static trace::Counter& calls = trace::counter("matmul.tf32_calls");
  const bool asked = t.dtype() == DType::f32 && kernel_options().tf32;
  if (asked) calls.add();
  return asked;
}

}  // namespace cuda_host
